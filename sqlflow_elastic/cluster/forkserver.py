"""The process that job processes are forked from: ``python -P -m sqlflow_elastic.cluster.forkserver FD MODULE…``.

Importing TensorFlow costs seconds; forking a process that has imported it costs milliseconds. So this one imports the
named modules, does nothing with them (TensorFlow's own threads start with its first operation and would not survive a
fork) and forks one process per request.

The other side is `forking.ForkServer`. They talk in JSON messages over a SOCK_SEQPACKET socket, descriptor FD:

- ``{"ready": true}`` goes out when the modules are imported;
- a request ``{"start": id, "program", "module", "arguments", "log", "directory", "environment", "descriptors"}`` comes
  with the open descriptors to be handed over (their variables' names in ``descriptors``). ``{"id", "pid"}`` goes out
  after the fork, or ``{"id", "failure"}``; ``{"id", "exit": code}`` at its end;
- ``{"signal": n, "id"}`` comes for the process group of a child.

End of file: the cluster is gone; all children are killed and this process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import io
import json
import os
import random
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from sqlflow_elastic.cluster.channel import MESSAGE_BYTES, close_all, receive

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class _Request:
    """In the child: what to become."""

    program: Path | None
    module: str | None
    arguments: list[str]
    log: int
    directory: str
    environment: dict[str, str]
    descriptors: dict[str, int]


class _Server:
    """Forks, signals and reaps children until the main socket ends."""

    def __init__(self, main: socket.socket) -> None:
        self._main = main
        self._children: dict[int, int] = {}  # id → pid
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_in.fileno(), warn_on_full_buffer=False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(main, selectors.EVENT_READ)
        self._selector.register(self._wake_out, selectors.EVENT_READ)

    def serve(self) -> _Request | None:
        """Serve until the cluster is gone: None. In a forked child: returns its request."""
        self._send({"ready": True})
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._wake_out:
                    with contextlib.suppress(BlockingIOError):
                        self._wake_out.recv(MESSAGE_BYTES)
                    self._reap()
                    continue
                data, descriptors = receive(self._main)
                if not data:
                    self._kill_all()
                    return None
                message = json.loads(data)
                if "start" not in message:
                    self._signal(message["id"], message["signal"])
                elif (request := self._fork(message, descriptors)) is not None:
                    return request

    def _fork(self, message: dict[str, Any], descriptors: list[int]) -> _Request | None:
        one, program, names = (message.pop(field) for field in ("start", "program", "descriptors"))
        server = os.getpid()
        try:
            descriptors.append(_open_log(message.pop("log")))
            pid = os.fork()
        except (OSError, ValueError) as error:
            self._send({"id": one, "failure": f"no process could be started: {error}"})
            close_all(descriptors)
            return None
        if pid == 0:
            _die_with(server)
            os.setsid()
            self._forget()
            log = descriptors.pop()
            handed_over = dict(zip(names, descriptors, strict=True))
            return _Request(None if program is None else Path(program), log=log, descriptors=handed_over, **message)
        close_all(descriptors)
        self._children[one] = pid
        self._send({"id": one, "pid": pid})
        return None

    def _forget(self) -> None:
        """In a child: drop what belongs to the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._selector.close()
        for mine in (self._main, self._wake_in, self._wake_out):
            mine.close()

    def _signal(self, one: int, number: int) -> None:
        if one in self._children:
            _signal_group(self._children[one], number)

    def _reap(self) -> None:
        for one, pid in list(self._children.items()):
            # Looked at before it is collected: as long as it is a zombie, its number cannot name another group.
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _signal_group(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            del self._children[one]
            self._send({"id": one, "exit": os.waitstatus_to_exitcode(status)})

    def _kill_all(self) -> None:
        for pid in self._children.values():
            _signal_group(pid, signal.SIGKILL)
        for pid in self._children.values():
            os.waitpid(pid, 0)

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):  # the cluster is gone: the end of file is handled where it is read
            self._main.send(json.dumps(message).encode())


def _open_log(path: str) -> int:
    """Here and not in the child, so that a log which cannot be written is told. Raises: OSError, ValueError."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o600)  # a pipe must not stop us
    os.set_blocking(log, True)
    return log


def _signal_group(pid: int, number: int) -> None:
    """Signal a child's process group; the child alone while it has not made its group yet."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _become(request: _Request) -> None:
    """Take the request's log, directory and environment, as if started from a shell."""
    os.dup2(request.log, 1)
    os.dup2(request.log, 2)
    os.close(request.log)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    faulthandler.enable()
    os.chdir(request.directory)
    os.environ.update(request.environment)
    for variable, descriptor in request.descriptors.items():
        os.environ[variable] = str(descriptor)
    sys.argv = [str(request.program or request.module), *request.arguments]
    if request.program is not None:
        sys.path[:0] = [str(request.program.parent), request.directory]
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _run(request: _Request) -> int:
    """Run the file or module as ``__main__``; the exit code. What it raises is printed without this module's frames."""
    try:
        if request.program is not None:
            _run_file(request.program)
        else:
            runpy.run_module(str(request.module), run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001 the program's own, shown as Python would
        traceback.print_exception(error.with_traceback(_outside(error.__traceback__)))
        return 1
    return 0


def _run_file(program: Path) -> None:
    module = types.ModuleType("__main__")
    module.__file__ = str(program)
    sys.modules["__main__"] = module
    exec(compile(program.read_bytes(), str(program), "exec"), module.__dict__)  # noqa: S102 what we are for


def _outside(frames: types.TracebackType | None) -> types.TracebackType | None:
    """The frames from the first one that is not of this file."""
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return frames


def _end(exit_code: int) -> NoReturn:
    """End as Python does, but for taking all objects apart: with TensorFlow that takes longer than a small job."""
    threading._shutdown()  # type: ignore[attr-defined]  # joins threads, executors' too; as multiprocessing does it
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    os._exit(exit_code)


def main(arguments: list[str]) -> None:
    """Import the modules, then serve until the cluster is gone; in a forked child, run its program."""
    main_socket = socket.socket(fileno=int(arguments[0]))
    gc.disable()
    for module in arguments[1:]:
        importlib.import_module(module)
    gc.freeze()  # what was imported is never collected, so that its memory pages stay shared with the children
    request = _Server(main_socket).serve()
    if request is None:
        _end(0)
    gc.enable()
    _become(request)
    _end(_run(request))


if __name__ == "__main__":
    main(sys.argv[1:])
