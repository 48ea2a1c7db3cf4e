"""The compiler's door: a statement in, a plan out."""

from __future__ import annotations

import re

from sqlflow_elastic.compiler.plan import EvaluatePlan, PredictPlan, TrainPlan
from sqlflow_elastic.compiler.program_text import ProgramText
from sqlflow_elastic.compiler.train import compile_train
from sqlflow_elastic.compiler.use import compile_evaluate, compile_predict
from sqlflow_elastic.datasource.base import DataSource
from sqlflow_elastic.errors import Span
from sqlflow_elastic.language import ast


def compile_statement(
    statement: ast.Statement, text: str, source: DataSource
) -> TrainPlan | PredictPlan | EvaluatePlan:
    """Bind a statement against the database, check it, and write its program.

    Args:
        statement: TO TRAIN, TO PREDICT, TO EVALUATE, or EXPLAIN of a TO TRAIN (its plan is that of the training).
        text: the whole program text that the statement's spans point into.
        source: the database.

    Raises:
        CompileError: the statement means nothing against this database and these models, or is not available yet.
        DataSourceError: the database refused a query.
        ModelStoreError: a trained model is damaged.
    """
    program = ProgramText(text)
    match statement:
        case ast.Train():
            return compile_train(program, statement, source)
        case ast.ExplainPlan():
            return compile_train(program, statement.train, source)
        case ast.Predict():
            return compile_predict(program, statement, source)
        case ast.Evaluate():
            return compile_evaluate(program, statement, source)
    verb, later = _later(statement)
    place = _verb_span(text, statement, verb) or statement.span
    raise program.error(place, f"{later} is not available yet")


def _later(statement: ast.Statement) -> tuple[str, str]:
    """The verb of a statement that is not compiled, and what to call it."""
    match statement:
        case ast.Explain():
            return "EXPLAIN", "TO EXPLAIN"
        case ast.Run():
            return "RUN", "TO RUN"
        case ast.Optimize():
            return statement.direction.value, f"TO {statement.direction.value}"
    return "", f"compiling a {type(statement).__name__}"


def _verb_span(text: str, statement: ast.Statement, verb: str) -> Span | None:
    """Where the verb stands: after the TO behind the SELECT, if the statement has one, else at its beginning."""
    select: ast.Select | None = getattr(statement, "select", None)
    start = statement.span.start if select is None else select.span.end
    found = re.compile(rf"(?:\bTO\s+)?\b({verb})\b", re.IGNORECASE).search(text, start, statement.span.end)
    return Span(*found.span(1)) if found and verb else None
