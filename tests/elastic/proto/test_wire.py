"""Messages as bytes: nothing is lost on the way, and the generated modules are those of the proto file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_args

import pytest

from sqlflow_elastic.elastic.membership import messages
from sqlflow_elastic.elastic.membership.messages import FromMaster, FromWorker, Held, Needs, Server, Standing, Wish
from sqlflow_elastic.elastic.proto import master_pb2, wire
from tests.elastic.proto import generate

_VALUES: dict[str, list[Any]] = {
    "str": ["", "worker-7 · 中"],
    "int": [0, -1, 2**40],
    "int | None": [None, 0, 3],
    "float": [0.0, 0.1],
    "bool": [False, True],
    "Standing": [Standing.WARMING, Standing.FINISHED],
    "tuple[float, ...]": [(), (0.25, 0.75)],
    "tuple[int, ...]": [(), (0, 5)],
    "tuple[Held, ...]": [(), (Held("save", 0, True), Held("rows", 12))],
    "tuple[Server, ...]": [(), (Server("ps-0", "host:1"), Server("ps-3", "[::1]:70"))],
    "Wish | None": [None, Wish("rows", 40)],
    "Needs | None": [None, Needs(2, 1024, "{}"), Needs(1, 512, "{}", synchronous=False)],
}


def _examples(kind: Any) -> list[Any]:
    """Two or three messages of a kind, between them each value of each field."""
    of_fields = {field.name: _VALUES[str(field.type)] for field in dataclasses.fields(kind)}
    most = max((len(values) for values in of_fields.values()), default=1)
    return [kind(**{name: values[i % len(values)] for name, values in of_fields.items()}) for i in range(most)]


@pytest.mark.parametrize("kind", get_args(FromWorker), ids=lambda kind: kind.__name__)
def test_a_workers_messages_come_as_they_went(kind: Any) -> None:
    for message in _examples(kind):
        data = wire.from_worker(message).SerializeToString()
        assert wire.worker_message(master_pb2.FromWorker.FromString(data)) == message


@pytest.mark.parametrize("kind", get_args(FromMaster), ids=lambda kind: kind.__name__)
def test_a_masters_messages_come_as_they_went(kind: Any) -> None:
    for message in _examples(kind):
        data = wire.from_master(message).SerializeToString()
        assert wire.master_message(master_pb2.FromMaster.FromString(data)) == message


def test_an_empty_message_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        wire.worker_message(master_pb2.FromWorker())


def test_every_message_has_a_class() -> None:
    for sides in (master_pb2.FromWorker, master_pb2.FromMaster):
        for field in sides.DESCRIPTOR.fields:
            kind = field.message_type
            assert kind is not None
            assert kind.name == "Spans" or hasattr(messages, kind.name)


def test_the_generated_modules_are_up_to_date(tmp_path: Path) -> None:
    generate.generate(tmp_path)
    home = generate.PROTO.parent
    for path in (tmp_path / "sqlflow_elastic/elastic/proto").iterdir():
        assert (home / path.name).read_text() == path.read_text(), "python -m tests.elastic.proto.generate"
