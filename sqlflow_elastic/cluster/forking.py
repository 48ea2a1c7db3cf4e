"""The fork server as seen from the cluster: started, talked to, ended. What it does is told in `forkserver`."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile

from sqlflow_elastic.cluster.base import CLUSTER_VARIABLE
from sqlflow_elastic.cluster.channel import Channel

_END_SECONDS = 10.0


class ForkServer:
    """One that was just started, and imports its modules.

    Args:
        preload: their names.

    Attributes:
        channel: the connection to it; at its end the fork server has gone, or is going.
        is_ready: whether it has said that it can fork; set by who reads the channel.

    Raises: OSError: it could not be started.
    """

    def __init__(self, preload: tuple[str, ...]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel = Channel(ours)
        self.is_ready = False
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 lives as long as the server
        inherited = {name: value for name, value in os.environ.items() if name != CLUSTER_VARIABLE}
        try:
            self._process = subprocess.Popen(
                # -P: a file of the user's directory must not stand in for a module
                [sys.executable, "-P", "-m", "sqlflow_elastic.cluster.forkserver", str(theirs.fileno()), *preload],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # the terminal's Ctrl-C is the session's to handle
                env={"TF_CPP_MIN_LOG_LEVEL": "2", **inherited, "KERAS_BACKEND": "tensorflow"},
            )
        except OSError:
            self.channel.close()
            self._log.close()
            raise
        finally:
            theirs.close()

    def last_words(self) -> str:
        """What it wrote at last, for an error message: lines, each begun with a line feed."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return "".join(f"\n  {line}" for line in lines[-10:])

    def end(self) -> None:
        """End it and its children, and reap it. Blocks for 10 seconds at most, for a moment as a rule."""
        self.channel.close()  # when it is ready, it kills its children now and goes
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS if self.is_ready else 0)
        self._process.kill()  # still importing, or hangs: the kernel kills its children with it
        self._process.wait()
        self._log.close()
