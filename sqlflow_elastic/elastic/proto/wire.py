"""Messages to protobuf and back: a proto message has the name and the fields of its class in `membership.messages`."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from typing import Any, cast

from sqlflow_elastic.elastic.membership import messages
from sqlflow_elastic.elastic.membership.messages import FromMaster, FromWorker
from sqlflow_elastic.elastic.proto import master_pb2


def from_worker(message: FromWorker) -> master_pb2.FromWorker:
    """A worker's message, to be sent."""
    return master_pb2.FromWorker(**{_slot(type(message)): _pack(message)})


def from_master(message: FromMaster) -> master_pb2.FromMaster:
    """A master's message, to be sent."""
    return master_pb2.FromMaster(**{_slot(type(message)): _pack(message)})


def worker_message(packed: master_pb2.FromWorker) -> FromWorker:
    """A worker's message, received. Raises: ValueError: it is none."""
    return cast("FromWorker", _received(packed))


def master_message(packed: master_pb2.FromMaster) -> FromMaster:
    """A master's message, received. Raises: ValueError: it is none."""
    return cast("FromMaster", _received(packed))


@cache
def _slot(kind: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def _pack(message: Any) -> Any:
    values = {}
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if dataclasses.is_dataclass(value):
            value = _pack(value)
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            value = [_pack(one) for one in value]
        values[field.name] = value
    return getattr(master_pb2, type(message).__name__)(**values)


def _received(packed: Any) -> Any:
    slot = packed.WhichOneof("message")
    if slot is None or not hasattr(messages, type(getattr(packed, slot)).__name__):
        raise ValueError("a message of an unknown kind")
    return _unpack(getattr(packed, slot))


def _unpack(packed: Any) -> Any:
    kind = getattr(messages, packed.DESCRIPTOR.name)
    values = {}
    for field in dataclasses.fields(kind):
        value = getattr(packed, field.name)
        descriptor = packed.DESCRIPTOR.fields_by_name[field.name]
        if descriptor.is_repeated:
            value = tuple(_unpack(one) if descriptor.message_type else one for one in value)
        elif descriptor.has_presence and not packed.HasField(field.name):
            value = None
        elif descriptor.message_type:
            value = _unpack(value)
        elif field.name == "standing":
            value = messages.Standing(value)
        values[field.name] = value
    return kind(**values)
