"""What a cluster and those who use it say to each other: JSON objects, one in each packet of a SOCK_SEQPACKET socket.

A connection carries one request, an object with ``do``:

    start      the fields of a `ProcessSpec`; with it come descriptors: the process's control socket, then those to be
               handed over, in the order of ``descriptors``. Reply {} when it is submitted
    terminate  job, name, grace. Reply {}
    kill       job, name. Reply {}
    forget     job. Reply {} when nothing is left of the job
    warm_up    Reply {}
    describe   Reply {"slots", "free"}
    watch      job. Replies {"statuses": [Status …], "more"} without end; the first ones, up to one whose ``more`` is
               false, are the state when it was asked for

or the reply is {"error": text, "started": whether it is an AlreadyStarted}, and the connection is closed.

The control socket of a process carries {"pid": n} when it runs and {"exit": code} or {"failure": text} at its end; the
other way {"terminate": grace} and {"kill": true}.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from sqlflow_elastic.cluster.base import Phase, ProcessSpec, Role, Status
from sqlflow_elastic.cluster.channel import MAX_DESCRIPTORS, MESSAGE_BYTES

_MAX_FAILURE = 2000
_MAX_GRACE = 86_400.0
_T = TypeVar("_T")


class WrongMessage(ValueError):  # noqa: N818 - says what it is
    """What came is no message of ours."""


def encode(message: Mapping[str, Any]) -> bytes:
    """The packet of a message. Raises: WrongMessage: it is too long for one."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > MESSAGE_BYTES:
        raise WrongMessage(f"{len(data)} bytes are too much for a message; {MESSAGE_BYTES} fit")
    return data


def decode(data: bytes) -> dict[str, Any]:
    """The message of a packet. Raises: WrongMessage."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WrongMessage("what came is not JSON") from error
    if not isinstance(message, dict):
        raise WrongMessage("what came is not a JSON object")
    return message


def field(message: Mapping[str, Any], name: str, kind: type[_T]) -> _T:
    """A field of a message that has this type exactly. Raises: WrongMessage."""
    value = message.get(name)
    if type(value) is not kind:
        raise WrongMessage(f"{name} is missing, or no {kind.__name__}")
    return value


def grace(message: Mapping[str, Any], name: str = "grace") -> float:
    """Seconds, at most a day's. Raises: WrongMessage."""
    seconds = message.get(name)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise WrongMessage(f"{name} is no number of seconds")
    return float(min(seconds, _MAX_GRACE))


def from_spec(spec: ProcessSpec) -> dict[str, Any]:
    """The fields of a start request. Raises: WrongMessage: too many descriptors."""
    if len(spec.descriptors) >= MAX_DESCRIPTORS:
        raise WrongMessage(f"a process takes at most {MAX_DESCRIPTORS - 1} descriptors")
    return {
        "program": None if spec.program is None else str(spec.program),
        "module": spec.module,
        "arguments": list(spec.arguments),
        "log": str(spec.log),
        "directory": str(spec.directory),
        "environment": dict(spec.environment),
        "descriptors": list(spec.descriptors),
        "job": spec.job,
        "name": spec.name,
        "role": spec.role,
        "priority": spec.priority,
        "slots": spec.slots,
        "memory": spec.memory,
    }


def to_spec(message: Mapping[str, Any], descriptors: list[int]) -> ProcessSpec:
    """The spec of a start request that came with these descriptors. Raises: WrongMessage."""
    program = None if message.get("program") is None else Path(field(message, "program", str))
    module = None if message.get("module") is None else field(message, "module", str)
    names = _texts(field(message, "descriptors", list))
    if len(names) != len(descriptors):
        raise WrongMessage(f"{len(descriptors)} descriptors came for {len(names)} (too many open files?)")
    environment = field(message, "environment", dict)
    _texts([*environment, *environment.values()])
    try:
        return ProcessSpec(
            program=program,
            module=module,
            arguments=tuple(_texts(field(message, "arguments", list))),
            log=Path(field(message, "log", str)),
            directory=Path(field(message, "directory", str)),
            environment=environment,
            descriptors=dict(zip(names, descriptors, strict=True)),
            job=field(message, "job", str),
            name=field(message, "name", str),
            role=Role(field(message, "role", str)),
            priority=field(message, "priority", int),
            slots=field(message, "slots", int),
            memory=field(message, "memory", int),
        )
    except ValueError as error:
        raise WrongMessage(str(error)) from error


def from_status(status: Status) -> dict[str, Any]:
    """The message of a status; a long failure is cut."""
    failure = status.failure
    if failure is not None and len(failure) > _MAX_FAILURE:
        failure = failure[:_MAX_FAILURE] + " …"
    return {**asdict(status), "failure": failure}


def to_status(message: Mapping[str, Any]) -> Status:
    """The status of a message of the cluster's."""
    return Status(**{**message, "role": Role(message["role"]), "phase": Phase(message["phase"])})


def _texts(values: list[Any]) -> list[str]:
    if not all(isinstance(value, str) and "\0" not in value for value in values):
        raise WrongMessage("what should be text is none")
    return values
