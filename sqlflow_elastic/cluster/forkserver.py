"""The process that job processes are forked from: ``python -P -m sqlflow_elastic.cluster.forkserver FD MODULE…``.

Importing TensorFlow costs seconds; forking a process that has imported it costs milliseconds. So this one imports the
named modules, does nothing with them (TensorFlow's own threads start with its first operation and would not survive a
fork) and forks one process per request.

The other side is `local.LocalCluster`. Both ends talk in JSON messages over SOCK_SEQPACKET sockets:

- the main socket, descriptor FD: a request ``{"program", "log", "directory", "environment", "descriptors"}`` comes with
  open descriptors: the process's control socket, then those to be handed over (their variables' names in
  ``descriptors``). End of file: the session is gone; all children are killed and this process ends.
  ``{"ready": true}`` goes out when the modules are imported.
- the control socket of each process: ``{"pid": n}`` goes out after the fork, ``{"exit": code}`` at its end;
  ``{"signal": n}`` comes in for its process group. End of file: nobody wants the process any more; it is killed.
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

MESSAGE_BYTES = 1 << 16
MAX_DESCRIPTORS = 16
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class _Request:
    """In the child: what to become."""

    program: Path
    log: str
    directory: str
    environment: dict[str, str]
    descriptors: dict[str, int]


class _Server:
    """Forks, signals and reaps children until the main socket ends."""

    def __init__(self, main: socket.socket) -> None:
        self._main = main
        self._controls: dict[int, socket.socket] = {}
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_in.fileno(), warn_on_full_buffer=False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(main, selectors.EVENT_READ)
        self._selector.register(self._wake_out, selectors.EVENT_READ)

    def serve(self) -> _Request | None:
        """Serve until the session is gone: None. In a forked child: returns its request."""
        _send(self._main, {"ready": True})
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._main:
                    message, descriptors = _receive(self._main)
                    if not message:
                        self._kill_all()
                        return None
                    request = self._fork(json.loads(message), descriptors)
                    if request is not None:
                        return request
                elif key.fileobj is self._wake_out:
                    with contextlib.suppress(BlockingIOError):
                        self._wake_out.recv(MESSAGE_BYTES)
                    self._reap()
                elif key.data in self._controls:
                    self._control(key.data)

    def _fork(self, message: dict[str, Any], descriptors: list[int]) -> _Request | None:
        control = socket.socket(fileno=descriptors[0])
        server = os.getpid()
        pid = -1 if _is_dropped(control) else os.fork()
        if pid == 0:
            _die_with(server)
            os.setsid()
            self._forget(control)
            names = message.pop("descriptors")
            program = Path(message.pop("program"))
            return _Request(program, descriptors=dict(zip(names, descriptors[1:], strict=True)), **message)
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        if pid < 0:
            control.close()
            return None
        self._controls[pid] = control
        self._selector.register(control, selectors.EVENT_READ, pid)
        _send(control, {"pid": pid})
        return None

    def _forget(self, control: socket.socket) -> None:
        """In a child: drop what belongs to the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._selector.close()
        for mine in (self._main, self._wake_in, self._wake_out, control, *self._controls.values()):
            mine.close()

    def _control(self, pid: int) -> None:
        message, _ = _receive(self._controls[pid])
        if message:
            _signal_group(pid, json.loads(message)["signal"])
            return
        _signal_group(pid, signal.SIGKILL)
        self._selector.unregister(self._controls[pid])

    def _reap(self) -> None:
        for pid, control in list(self._controls.items()):
            # Looked at before it is collected: as long as it is a zombie, its number cannot name another group.
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _signal_group(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            with contextlib.suppress(KeyError):
                self._selector.unregister(control)
            del self._controls[pid]
            _send(control, {"exit": os.waitstatus_to_exitcode(status)})
            control.close()

    def _kill_all(self) -> None:
        for pid in self._controls:
            _signal_group(pid, signal.SIGKILL)
        for pid in self._controls:
            os.waitpid(pid, 0)


def _receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """A message and its descriptors; an empty one when the other side is gone."""
    try:
        message, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, MAX_DESCRIPTORS)
    except ConnectionError:  # it left something unread
        return b"", []
    return message, descriptors


def _is_dropped(control: socket.socket) -> bool:
    """Whether the process is not wanted any more, before it has begun."""
    try:
        return not control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def _send(control: socket.socket, message: dict[str, int]) -> None:
    with contextlib.suppress(OSError):  # the other side is gone: its end of file is handled where it is read
        control.send(json.dumps(message).encode())


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
    log = os.open(request.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    faulthandler.enable()
    os.chdir(request.directory)
    os.environ.update(request.environment)
    for variable, descriptor in request.descriptors.items():
        os.environ[variable] = str(descriptor)
    sys.argv = [str(request.program)]
    sys.path[:0] = [str(request.program.parent), request.directory]
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _run(program: Path) -> int:
    """Run the file as ``__main__``; its exit code. What it raises is printed without this module's frames."""
    module = types.ModuleType("__main__")
    module.__file__ = str(program)
    sys.modules["__main__"] = module
    try:
        exec(compile(program.read_bytes(), str(program), "exec"), module.__dict__)  # noqa: S102 what we are for
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001 the program's own, shown as Python would
        traceback.print_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        return 1
    return 0


def _end(exit_code: int) -> NoReturn:
    """End as Python does, but for taking all objects apart: with TensorFlow that takes longer than a small job."""
    threading._shutdown()  # type: ignore[attr-defined]  # joins threads, executors' too; as multiprocessing does it
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


def main(arguments: list[str]) -> None:
    """Import the modules, then serve until the session is gone; in a forked child, run its program."""
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
    _end(_run(request.program))


if __name__ == "__main__":
    main(sys.argv[1:])
