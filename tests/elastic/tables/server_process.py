"""``python -m tests.elastic.tables.server_process NAME FOLDER``: a server to be killed or stopped. Says its address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlflow_elastic.elastic.tables.server import TableServer
from tests.elastic.tables.servers import SECONDS, TOKEN


@contextmanager
def server_process(name: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Such a process and its address. Killed at the end."""
    command = [sys.executable, "-m", "tests.elastic.tables.server_process", name, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait(SECONDS)


if __name__ == "__main__":
    server = TableServer(TOKEN, "127.0.0.1", sys.argv[1], Path(sys.argv[2]))
    sys.stdout.write(f"{server.address}\n")
    sys.stdout.flush()
    server.serve()
