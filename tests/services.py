"""Servers for tests: started on free ports, in data folders of their own, and gone afterwards.

    python -m tests.services run -- pytest tests/datasource

starts MariaDB, PostgreSQL and etcd, sets ``SQLFLOW_ELASTIC_TEST_MYSQL``, ``SQLFLOW_ELASTIC_TEST_POSTGRESQL`` and
``SQLFLOW_ELASTIC_TEST_ETCD`` to their URLs, runs the command, stops them and returns the command's exit code. Killed
itself, it takes the servers with it: the kernel ends a child whose parent died (``setpriv --pdeathsig``).
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol
from urllib.parse import quote

import grpc
import psycopg
import pymysql
from pyetcd import etcdrpc
from pyetcd.etcdrpc import auth_pb2

START_SECONDS = 40.0
STOP_SECONDS = 10.0
USER = "sqlflow"
#: Full of what an URL has to encode, so that everything that reads or hides passwords meets it.
PASSWORD = "p@ss/w:rd%1#"
DATABASE = "test"
MYSQL_VARIABLE = "SQLFLOW_ELASTIC_TEST_MYSQL"
POSTGRESQL_VARIABLE = "SQLFLOW_ELASTIC_TEST_POSTGRESQL"
ETCD_VARIABLE = "SQLFLOW_ELASTIC_TEST_ETCD"


class Server(Protocol):
    """A server in a folder."""

    variable: str
    folder: Path

    def initialise(self) -> subprocess.Popen[bytes]:
        """Begin to fill the data folder."""

    def serve(self) -> subprocess.Popen[bytes]:
        """Start the server."""

    def connect(self) -> None:
        """Connect once, as the tests will."""

    @property
    def url(self) -> str:
        """The URL with user, password and what of the server is theirs."""

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Ask the server to end; its data are not needed any more."""


class MariaDB:
    variable = MYSQL_VARIABLE

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.account = pwd.getpwuid(os.geteuid()).pw_name

    def initialise(self) -> subprocess.Popen[bytes]:
        return start(
            self.folder,
            _program("mariadb-server", "mariadb-install-db", "mysql_install_db"),
            *("--no-defaults", f"--datadir={self.folder}/data", f"--user={self.account}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-log-bin"),
            *("--innodb-flush-method=nosync", "--innodb-log-file-size=16M"),
        )

    def serve(self) -> subprocess.Popen[bytes]:
        (self.folder / "init.sql").write_text(
            f"CREATE DATABASE {DATABASE};\n"
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n",
            encoding="utf-8",
        )
        return start(
            self.folder,
            _program("mariadb-server", "mariadbd", "mysqld"),
            *("--no-defaults", f"--datadir={self.folder}/data", f"--user={self.account}", f"--port={self.port}"),
            *("--bind-address=127.0.0.1", f"--socket={self.folder}/socket", f"--pid-file={self.folder}/pid"),
            *(f"--init-file={self.folder}/init.sql", "--character-set-server=utf8mb4", "--skip-log-bin"),
            *("--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"),
            *("--innodb-log-file-size=64M", "--innodb-buffer-pool-size=128M", "--performance-schema=OFF"),
            "--skip-name-resolve",  # so that MariaDB's anonymous user at localhost is nobody here
        )

    def connect(self) -> None:
        pymysql.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD.encode(), database=DATABASE, read_timeout=5
        ).close()

    @property
    def url(self) -> str:
        return f"mysql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{DATABASE}"

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()


class PostgreSQL:
    variable = POSTGRESQL_VARIABLE

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        # PostgreSQL refuses to run as root.
        self.account = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        if self.account is not None:
            os.chown(folder, self.account.pw_uid, self.account.pw_gid)

    def initialise(self) -> subprocess.Popen[bytes]:
        secret = self.folder / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        return start(
            self.folder,
            _postgresql("initdb"),
            *(f"--pgdata={self.folder}/data", f"--username={USER}", f"--pwfile={secret}", "--auth=scram-sha-256"),
            *("--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"),
            account=self.account,
        )

    def serve(self) -> subprocess.Popen[bytes]:
        return start(
            self.folder,
            _postgresql("postgres"),
            *("-D", f"{self.folder}/data", "-p", str(self.port), "-k", str(self.folder), "-h", "127.0.0.1"),
            *("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"),
            *("-c", "max_wal_size=4GB", "-c", "autovacuum=off"),
            account=self.account,
        )

    def connect(self) -> None:
        with psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=PASSWORD,
            dbname="postgres",
            connect_timeout=5,
            autocommit=True,
        ) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{DATABASE}"

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGQUIT)  # at once, but giving back its shared memory


class Etcd:
    """An etcd whose user may read and write the keys that begin with "tests/"."""

    variable = ETCD_VARIABLE

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.peer_port = free_port()
        self.scheme = "http"

    def initialise(self) -> subprocess.Popen[bytes]:
        return start(self.folder, "true")  # etcd makes its data folder itself

    def serve(self, *options: str) -> subprocess.Popen[bytes]:
        client, peer = f"{self.scheme}://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer_port}"
        return start(
            self.folder,
            _program("etcd-server", "etcd"),
            *(f"--data-dir={self.folder}/data", "--log-level=error", "--logger=zap", "--bcrypt-cost=4"),
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
            *(f"--initial-cluster=default={peer}", *options),
        )

    def connect(self) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{self.port}", [("grpc.enable_http_proxy", 0)]) as channel:
            auth = etcdrpc.AuthStub(channel)
            auth.RoleAdd(etcdrpc.AuthRoleAddRequest(name="root"), timeout=5)
            auth.RoleAdd(etcdrpc.AuthRoleAddRequest(name=USER), timeout=5)
            keys = auth_pb2.Permission(permType=auth_pb2.Permission.READWRITE, key=b"tests/", range_end=b"tests0")
            auth.RoleGrantPermission(etcdrpc.AuthRoleGrantPermissionRequest(name=USER, perm=keys), timeout=5)
            for user in ("root", USER):
                auth.UserAdd(etcdrpc.AuthUserAddRequest(name=user, password=PASSWORD), timeout=5)
                auth.UserGrantRole(etcdrpc.AuthUserGrantRoleRequest(user=user, role=user), timeout=5)
            auth.AuthEnable(etcdrpc.AuthEnableRequest(), timeout=5)

    @property
    def url(self) -> str:
        return f"etcd://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/tests"

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()


def start(folder: Path, *command: str, account: pwd.struct_passwd | None = None) -> subprocess.Popen[bytes]:
    """A process that dies with this one, in a session of its own, its output in the folder's log."""
    change = []
    if account is not None:
        change = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", *change, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )


def free_port() -> int:
    """A port of this machine that nobody listens on, and that the system gives to nobody who does not ask for it."""
    given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, given)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _program(package: str, *names: str) -> str:
    """The first of the programs that is installed."""
    for name in names:
        for folder in ("/usr/sbin", "/usr/bin", "/usr/local/bin"):
            if (path := Path(folder, name)).exists():
                return str(path)
    raise RuntimeError(f"{names[0]} is not installed (Debian: {package})")


def _postgresql(name: str) -> str:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    if not found:
        raise RuntimeError(f"{name} is not installed (Debian: postgresql)")
    return str(found[-1])


@contextmanager
def serving(*kinds: type[MariaDB] | type[PostgreSQL] | type[Etcd]) -> Iterator[dict[str, str]]:
    """Servers of these kinds, started side by side: their URLs by environment variable."""
    deadline = time.monotonic() + START_SECONDS
    with ExitStack() as cleanup:
        servers: list[Server] = []
        for kind in kinds:
            # A short path: the name of a Unix socket has at most 107 bytes.
            folder = Path(tempfile.mkdtemp(prefix="sfe-", dir="/tmp"))
            cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
            servers.append(kind(folder))
        first = [(server, server.initialise()) for server in servers]
        for _, process in first:
            cleanup.callback(_end, process)
        running = []
        for server, process in first:
            if process.wait(deadline - time.monotonic()):
                raise RuntimeError(f"{server.variable}: the data folder was not made\n{_log(server)}")
            served = server.serve()
            cleanup.callback(_stop, server, served)
            running.append((server, served))
        for server, process in running:
            await_start(server, process, deadline)
        yield {server.variable: server.url for server in servers}


def await_start(server: Server, process: subprocess.Popen[bytes], deadline: float) -> None:
    """Return when the server that was just started lets the tests in; `deadline` is one of ``time.monotonic``."""
    while True:
        try:
            return server.connect()
        except (pymysql.Error, psycopg.Error, grpc.RpcError) as error:
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline:
                    continue
            raise RuntimeError(f"{server.variable}: the server did not start\n{_log(server)}") from error


def _log(server: Server) -> str:
    return (server.folder / "log").read_text(errors="replace")[-4000:]


def _stop(server: Server, process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        server.stop(process)
    _end(process, STOP_SECONDS)


def _end(process: subprocess.Popen[bytes], patience: float = 0.0) -> None:
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)


@contextmanager
def mariadb() -> Iterator[str]:
    """A MariaDB server: its URL."""
    with serving(MariaDB) as urls:
        yield urls[MYSQL_VARIABLE]


@contextmanager
def postgresql() -> Iterator[str]:
    """A PostgreSQL server: its URL."""
    with serving(PostgreSQL) as urls:
        yield urls[POSTGRESQL_VARIABLE]


@contextmanager
def etcd() -> Iterator[str]:
    """An etcd server: its URL."""
    with serving(Etcd) as urls:
        yield urls[ETCD_VARIABLE]


def run(command: Sequence[str]) -> int:
    """Run a command beside the servers; its exit code, 128 + n if signal n ended it or this process."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with serving(MariaDB, PostgreSQL, Etcd) as urls:
            process = subprocess.Popen(command, env={**os.environ, **urls})
            code = process.wait()
            return code if code >= 0 else 128 - code
    except Stopped as stopped:
        return 128 + stopped.signal
    finally:
        if process is not None and process.poll() is None:
            process.terminate()
            _end(process, STOP_SECONDS)


class Stopped(BaseException):
    """This process was asked to end."""

    def __init__(self, signal_number: int) -> None:
        self.signal = signal_number


def _stopped(number: int, _frame: FrameType | None) -> NoReturn:
    # Once is enough: a second signal must not break the cleaning up.
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    raise Stopped(number)


def main(arguments: Sequence[str]) -> int:
    """The command line: ``run -- COMMAND…``."""
    match list(arguments):
        case ["run", "--", first, *rest]:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, _stopped)
            return run([first, *rest])
    sys.stderr.write("usage: python -m tests.services run -- COMMAND…\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
