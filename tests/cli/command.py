"""Running the command as its users do: as a process, with pipes or with a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

COMMAND = str(Path(sys.executable).with_name("sqlflow-elastic"))
SECONDS = 30.0

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>()][0-9A-Z]?|\r")


def environment(home: Path) -> dict[str, str]:
    """Variables with which the command finds nothing of this machine's user."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SQLFLOW", "XDG"))}
    return {**kept, "HOME": str(home), "COLUMNS": "120", "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"}


def run(home: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment(home),
        cwd=home,
        check=False,
    )


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(home),
        cwd=home,
    )


def family(pid: int) -> list[psutil.Process]:
    """The process's children and theirs."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


class Terminal:
    """The command in a terminal of 30 lines and 120 columns; what it shows is collected without control sequences."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        os.set_blocking(self._master, False)
        subprocess.run(["stty", "rows", "30", "cols", "120"], stdin=slave, check=True)
        self.process = subprocess.Popen(
            [COMMAND, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment(home),
            cwd=home,
            start_new_session=True,
        )
        os.close(slave)
        self._shown = ""
        self._seen = 0

    def enter(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C while a statement runs: the terminal's signal."""
        self.process.send_signal(signal.SIGINT)

    def expect(self, text: str, seconds: float = SECONDS) -> str:
        """Wait until the text is shown, after what was expected before; everything up to it."""
        deadline = time.monotonic() + seconds
        while (found := self._shown.find(text, self._seen)) < 0:
            if time.monotonic() > deadline:
                raise AssertionError(f"{text!r} was not shown; shown was: {self._shown[self._seen :]!r}")
            self._read()
        shown = self._shown[self._seen : found + len(text)]
        self._seen = found + len(text)
        return shown

    def exit_code(self) -> int:
        deadline = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end; shown was: {self._shown[self._seen :]!r}"
            self._read()
        return self.process.returncode

    def _read(self) -> None:
        if select.select([self._master], [], [], 0.1)[0]:
            try:
                self._shown += _CONTROL.sub("", os.read(self._master, 1 << 16).decode(errors="replace"))
            except OSError:  # the other side is closed
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)
