"""The typed syntax tree of a program.

Every node knows its place in the program text (``span``). Nodes are frozen; two nodes are equal when they say the same
thing, wherever it stands (spans do not count in comparisons), which is what "parse, print, parse gives the same" means.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from sqlflow_elastic.errors import Span

NOWHERE = Span(0, 0)


@dataclass(frozen=True)
class Node:
    """Anything with a place in the text."""

    span: Span = field(default=NOWHERE, compare=False, kw_only=True)


# ── values ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Literal(Node):
    """``1``, ``-2.5``, ``1e-3``, ``"text"``, ``'text'``, ``True``, ``False``, ``None``: a Python value of that kind."""

    value: int | float | str | bool | None


@dataclass(frozen=True)
class Name(Node):
    """A name of one or more parts: ``label``, ``db.table``, ``sqlflow_models.DNNClassifier``, ``\\`a b\\`.c``.

    ``parts`` hold the names without their quotes. Image-like model names (``registry/img:latest/Model``) are one part.
    """

    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The parts joined by dots, unquoted: for messages and look-ups, not for pasting into SQL."""
        return ".".join(self.parts)


@dataclass(frozen=True)
class ListValue(Node):
    """``[a, b, [c]]``."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class Call(Node):
    """``EMBEDDING(CATEGORY_ID(a, 10), 8)``, ``search.choice([1, 2])``, ``Adam(learning_rate=0.1)``."""

    function: Name
    args: tuple[Value, ...]
    keywords: tuple[Keyword, ...] = ()


@dataclass(frozen=True)
class Keyword(Node):
    """``learning_rate=0.1`` inside a call."""

    name: str
    value: Value


@dataclass(frozen=True)
class Star(Node):
    """The ``*`` of ``COLUMN *``: all remaining fields."""


Value = Literal | Name | ListValue | Call | Star


# ── clauses ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Attribute(Node):
    """``model.hidden_units = [64, 32]`` in WITH. ``name`` is the dotted name as text."""

    name: str
    value: Value
    name_span: Span = field(default=NOWHERE, compare=False, kw_only=True)


@dataclass(frozen=True)
class ColumnClause(Node):
    """``COLUMN a, EMBEDDING(b, 8) FOR dnn_feature_columns``; ``target`` is None without FOR."""

    columns: tuple[Value, ...]
    target: str | None


@dataclass(frozen=True)
class Select(Node):
    """The SQL before TO as it stands in the text, no white space or comments around it, and the tables it reads."""

    text: str
    tables: tuple[Name, ...] = ()


@dataclass(frozen=True)
class Constraint(Node):
    """One CONSTRAINT: its expression's text as written, and the field it is grouped by."""

    expression: str
    group_by: Name | None = None


# ── statements ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Statement(Node):
    """A statement. ``text[span.start:span.end]`` of the program is its source, without the ``;``."""


@dataclass(frozen=True)
class PlainSQL(Statement):
    """A statement of the data source's own language, passed through unchanged.

    ``returns_rows`` is a best guess (SELECT, SHOW, DESCRIBE, VALUES, WITH … SELECT, EXPLAIN, PRAGMA, RETURNING …).
    """

    text: str
    returns_rows: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Train(Statement):
    """``SELECT … TO TRAIN model WITH … COLUMN … LABEL … USING … INTO name``."""

    select: Select
    model: Name
    attributes: tuple[Attribute, ...]
    columns: tuple[ColumnClause, ...]
    label: Name | None
    using: Name | None
    into: Name


@dataclass(frozen=True)
class Predict(Statement):
    """``SELECT … TO PREDICT table.column WITH … USING model``. The target has two or more parts, the column last."""

    select: Select
    target: Name
    attributes: tuple[Attribute, ...]
    using: Name


@dataclass(frozen=True)
class Evaluate(Statement):
    """``SELECT … TO EVALUATE model WITH … LABEL field INTO table``."""

    select: Select
    model: Name
    attributes: tuple[Attribute, ...]
    label: Name | None
    into: Name | None


@dataclass(frozen=True)
class Explain(Statement):
    """``SELECT … TO EXPLAIN model WITH … USING explainer INTO table``."""

    select: Select
    model: Name
    attributes: tuple[Attribute, ...]
    using: Name | None
    into: Name | None


@dataclass(frozen=True)
class Run(Statement):
    """``SELECT … TO RUN image CMD "arg", … INTO table, …``; the SELECT may be missing."""

    select: Select | None
    image: Name
    command: tuple[str, ...]
    into: tuple[Name, ...]


class Direction(enum.Enum):
    """What TO MAXIMIZE and TO MINIMIZE ask for."""

    MAXIMIZE = "MAXIMIZE"
    MINIMIZE = "MINIMIZE"


@dataclass(frozen=True)
class Optimize(Statement):
    """``SELECT … TO MAXIMIZE|MINIMIZE expr CONSTRAINT … WITH … USING solver INTO table``."""

    select: Select
    direction: Direction
    objective: str
    constraints: tuple[Constraint, ...]
    attributes: tuple[Attribute, ...]
    using: Name | None
    into: Name


@dataclass(frozen=True)
class ExplainPlan(Statement):
    """``EXPLAIN SELECT … TO TRAIN …``: the plan instead of the training."""

    train: Train


@dataclass(frozen=True)
class ShowTrain(Statement):
    """``SHOW TRAIN model``."""

    model: Name


@dataclass(frozen=True)
class ShowModels(Statement):
    """``SHOW MODELS``."""


@dataclass(frozen=True)
class DescribeModel(Statement):
    """``DESCRIBE MODEL name``."""

    model: Name


@dataclass(frozen=True)
class DropModel(Statement):
    """``DROP MODEL [IF EXISTS] name``."""

    model: Name
    if_exists: bool


@dataclass(frozen=True)
class ShowJobs(Statement):
    """``SHOW JOBS``."""


@dataclass(frozen=True)
class ShowJob(Statement):
    """``SHOW JOB id``."""

    job: str


@dataclass(frozen=True)
class KillJob(Statement):
    """``KILL JOB id``."""

    job: str
