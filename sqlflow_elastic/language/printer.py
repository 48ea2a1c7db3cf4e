"""From the syntax tree back to text."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from sqlflow_elastic.language import ast
from sqlflow_elastic.language.lexis import IMAGE, NAME, NUMBER, lexis_of
from sqlflow_elastic.language.quoting import quoted_model, quoted_name, quoted_string


def format_statement(statement: ast.Statement, dialect: str = "duckdb") -> str:
    """The statement as text, without a ``;``: `parse` of it gives the same statement again (but for spans)."""
    lexis_of(dialect)
    return "\n".join(_lines(statement, dialect))


def format_program(statements: Iterable[ast.Statement], dialect: str = "duckdb") -> str:
    """The statements as text, each ended by a ``;``."""
    return "\n\n".join(format_statement(statement, dialect) + ";" for statement in statements) + "\n"


def _lines(statement: ast.Statement, dialect: str) -> list[str]:
    match statement:
        case ast.PlainSQL(text):
            return [text]
        case ast.ExplainPlan(train):
            first, *others = _lines(train, dialect)
            return [f"EXPLAIN {first}", *others]
        case ast.Train():
            return [
                statement.select.text,
                f"TO TRAIN {_model(statement.model)}",
                *_attributes(statement.attributes, dialect),
                *(_column_clause(clause, dialect) for clause in statement.columns),
                *_named("LABEL", statement.label),
                *_trained(statement.using),
                *_named("INTO", statement.into),
            ]
        case ast.Predict():
            return [
                statement.select.text,
                f"TO PREDICT {_name(statement.target)}",
                *_attributes(statement.attributes, dialect),
                *_trained(statement.using),
            ]
        case ast.Evaluate():
            return [
                statement.select.text,
                f"TO EVALUATE {_model(statement.model)}",
                *_attributes(statement.attributes, dialect),
                *_named("LABEL", statement.label),
                *_named("INTO", statement.into),
            ]
        case ast.Explain():
            return [
                statement.select.text,
                f"TO EXPLAIN {_model(statement.model)}",
                *_attributes(statement.attributes, dialect),
                *_trained(statement.using),
                *_named("INTO", statement.into),
            ]
        case ast.Run():
            strings = [quoted_string(argument, dialect) for argument in statement.command]
            return [
                *([statement.select.text] if statement.select else []),
                f"TO RUN {_model(statement.image)}",
                *([f"CMD {', '.join(strings)}"] if strings else []),
                *([f"INTO {', '.join(map(_name, statement.into))}"] if statement.into else []),
            ]
        case ast.Optimize():
            return [
                statement.select.text,
                f"TO {statement.direction.value} {statement.objective}",
                *_constraints(statement.constraints),
                *_attributes(statement.attributes, dialect),
                *_trained(statement.using),
                *_named("INTO", statement.into),
            ]
        case _:
            return [_command(statement, dialect)]


def _command(statement: ast.Statement, dialect: str) -> str:
    match statement:
        case ast.ShowTrain(model):
            return f"SHOW TRAIN {_model(model)}"
        case ast.ShowModels():
            return "SHOW MODELS"
        case ast.DescribeModel(model):
            return f"DESCRIBE MODEL {_model(model)}"
        case ast.DropModel(model, if_exists):
            return f"DROP MODEL {'IF EXISTS ' if if_exists else ''}{_model(model)}"
        case ast.ShowJobs():
            return "SHOW JOBS"
        case ast.ShowJob(job):
            return f"SHOW JOB {_job(job, dialect)}"
        case ast.KillJob(job):
            return f"KILL JOB {_job(job, dialect)}"
        case _:
            raise TypeError(f"no statement: {statement!r}")


def _attributes(attributes: Sequence[ast.Attribute], dialect: str) -> list[str]:
    if not attributes:
        return []
    lines = [f"  {attribute.name} = {_value(attribute.value, dialect)}" for attribute in attributes]
    return ["WITH", ",\n".join(lines)]


def _column_clause(clause: ast.ColumnClause, dialect: str) -> str:
    columns = ", ".join(_value(column, dialect) for column in clause.columns)
    return f"COLUMN {columns} FOR {clause.target}" if clause.target else f"COLUMN {columns}"


def _constraints(constraints: Sequence[ast.Constraint]) -> list[str]:
    if not constraints:
        return []
    return ["CONSTRAINT " + ", ".join(map(_constraint, constraints))]


def _constraint(constraint: ast.Constraint) -> str:
    group = f" GROUP BY {_name(constraint.group_by)}" if constraint.group_by else ""
    return constraint.expression + group


def _named(keyword: str, name: ast.Name | None) -> list[str]:
    return [f"{keyword} {_name(name)}"] if name else []


def _trained(model: ast.Name | None) -> list[str]:
    return [f"USING {_model(model)}"] if model else []


def _name(name: ast.Name) -> str:
    return ".".join(map(quoted_name, name.parts))


def _model(name: ast.Name) -> str:
    return quoted_model(name.parts[0]) if len(name.parts) == 1 else _name(name)


def _job(job: str, dialect: str) -> str:
    bare = any(pattern.fullmatch(job) for pattern in (NAME, NUMBER, IMAGE))
    return job if bare else quoted_string(job, dialect)


def _value(value: ast.Value, dialect: str) -> str:
    within = functools.partial(_value, dialect=dialect)
    match value:
        case ast.Literal(str() as text):
            return quoted_string(text, dialect)
        case ast.Literal(constant):
            return repr(constant)
        case ast.Name():
            return _name(value)
        case ast.ListValue(items):
            return f"[{', '.join(map(within, items))}]"
        case ast.Call(function, args, keywords):
            named = [f"{keyword.name}={within(keyword.value)}" for keyword in keywords]
            return f"{_name(function)}({', '.join([*map(within, args), *named])})"
        case ast.Star():
            return "*"
