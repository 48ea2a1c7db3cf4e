"""What can be typed next: keywords, tables, columns, models, attributes and their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from sqlflow_elastic.compiler.columns import SIGNATURES
from sqlflow_elastic.errors import SQLFlowError
from sqlflow_elastic.language import KEYWORDS
from sqlflow_elastic.models.zoo import attributes
from sqlflow_elastic.models.zoo.attributes import Attribute
from sqlflow_elastic.models.zoo.declarations import MODELS, Model, find
from sqlflow_elastic.models.zoo.optimizers import OPTIMIZERS
from sqlflow_elastic.session import Session

_WORD = re.compile(r"[\w.]*\Z")
_NAME = r"[\w.`\"]+"
_AFTER_MODEL_WORD = re.compile(
    r"\b(USING|TO\s+(EVALUATE|EXPLAIN)|SHOW\s+TRAIN|DESC(RIBE)?\s+MODEL|DROP\s+MODEL(\s+IF\s+EXISTS)?)\s+\Z", re.I
)
_AFTER_JOB_WORD = re.compile(r"\b(?:SHOW|KILL)\s+JOB\s+([\w-]*)\Z", re.I)
_AFTER_TRAIN = re.compile(r"\bTO\s+TRAIN\s+\Z", re.I)
_AFTER_TABLE_WORD = re.compile(r"\b(FROM|JOIN|UPDATE|TABLE|INTO|TO\s+PREDICT)\s+\Z", re.I)
_AFTER_ATTRIBUTE = re.compile(r"\b([a-z_]+(?:\.\w+)+)\s*=\s*\Z", re.I)
_TRAINS = re.compile(r"\bTO\s+TRAIN\s+([\w.]+)", re.I)
_TABLES = re.compile(rf"\b(?:FROM|JOIN)\s+({_NAME})", re.I)
_CLAUSE = re.compile(r"\b(WITH|COLUMN|LABEL|USING|INTO|FOR|TO\s+\w+)\b", re.I)


class ProgramCompleter(Completer):
    """Completes the statement at the cursor.

    Names of the database are asked for once and kept until `forget`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[object, list[str]] = {}

    def forget(self) -> None:
        """The database may have changed."""
        self._known.clear()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """See `Completer.get_completions`."""
        before = document.text_before_cursor
        statement = before[before.rfind(";") + 1 :]
        if match := _AFTER_JOB_WORD.search(statement):
            yield from self._jobs(match.group(1))
            return
        word = _WORD.search(statement)
        assert word is not None  # noqa: S101 it matches nothing at least
        typed = word.group()
        for candidate in self._candidates(statement[: word.start()], typed):
            if candidate.lower().startswith(typed.lower()):
                yield Completion(candidate, -len(typed), display_meta=_help(candidate))

    def _candidates(self, before: str, typed: str) -> Iterable[str]:
        if _AFTER_TRAIN.search(before):
            return [model.name for model in MODELS]
        if _AFTER_MODEL_WORD.search(before):
            return self._ask("models", self._session.models)
        if _AFTER_TABLE_WORD.search(before):
            return self._ask("tables", self._session.tables)
        model = _model_of(before)
        if match := _AFTER_ATTRIBUTE.search(before):
            return _values(match.group(1), model)
        clause = _last_clause(before)
        if clause == "WITH":
            return [attribute.name for attribute in _attributes(model)] if typed else [f"{g}." for g in _groups(model)]
        columns = [column for table in _TABLES.findall(before) for column in self._columns(table)]
        if clause == "LABEL":
            return columns
        if clause == "COLUMN":
            return [*columns, *SIGNATURES, *KEYWORDS]
        tables = self._ask("tables", self._session.tables) if typed else []
        return [*columns, *KEYWORDS, *tables]

    def _jobs(self, typed: str) -> Iterator[Completion]:
        """The jobs there are now: those of other sessions come and go meanwhile."""
        try:
            jobs = self._session.jobs()
        except SQLFlowError:
            return
        yield from (Completion(job, -len(typed)) for job in jobs if job.startswith(typed))

    def _columns(self, table: str) -> list[str]:
        parts = tuple(part.strip('`"') for part in table.split("."))
        return self._ask(parts, lambda: self._session.columns(parts))

    def _ask(self, what: object, ask: Callable[[], list[str]]) -> list[str]:
        if what not in self._known:
            try:
                self._known[what] = ask()
            except (SQLFlowError, TimeoutError):  # typing goes on without
                return []
        return self._known[what]


def attributes_of(model: Model) -> list[Attribute]:
    """All that may stand after WITH of TO TRAIN with this model, ``optimizer.*`` of every optimizer included."""
    parameters = {
        f"{group}.{parameter.name}": parameter
        for group in model.optimizers
        for optimizer in OPTIMIZERS
        for parameter in optimizer.parameters
    }
    optimizer_attributes = [
        Attribute(name, parameter.kind, None, parameter.help) for name, parameter in parameters.items()
    ]
    return [*model.attributes, *optimizer_attributes, *attributes.TRAIN, *attributes.VALIDATION]


def _attributes(model: Model | None) -> list[Attribute]:
    """What may stand after WITH; of every model if it is not said which."""
    if model is not None:
        return attributes_of(model)
    every = {one.name: one for model in MODELS for one in attributes_of(model)}
    return [*every.values(), *attributes.PREDICT, *attributes.SUMMARY]


def _groups(model: Model | None) -> list[str]:
    return list(dict.fromkeys(attribute.name.partition(".")[0] for attribute in _attributes(model)))


def _values(attribute: str, model: Model | None) -> tuple[str, ...]:
    return next((one.kind.suggestions() for one in _attributes(model) if one.name == attribute.lower()), ())


def _model_of(before: str) -> Model | None:
    match = _TRAINS.search(before)
    return find(match.group(1)) if match else None


def _last_clause(before: str) -> str:
    """The last clause's word after TO; nothing before TO."""
    clauses = [" ".join(match.upper().split()) for match in _CLAUSE.findall(before)]
    start = next((i for i, clause in enumerate(clauses) if clause.startswith("TO ")), None)
    return "" if start is None else clauses[-1]


def _help(candidate: str) -> str:
    if model := find(candidate):
        return model.help
    return next((one.help for one in _attributes(None) if one.name == candidate), "")
