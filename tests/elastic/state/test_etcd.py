"""What is special to the state store in etcd: the network, and an etcd that stops, dies and comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote, urlsplit

import grpc
import pytest
from pyetcd import etcdrpc

from sqlflow_elastic.elastic.state import Change, HistoryLost, StateStore, StoreUnavailable, Watch, open_store
from sqlflow_elastic.elastic.state.etcd import EtcdStore
from tests.elastic.state.cable import Cable
from tests.services import ETCD_VARIABLE, PASSWORD, USER, Etcd, await_start, free_port
from tests.waiting import wait_until


@pytest.fixture
def call_seconds(monkeypatch: pytest.MonkeyPatch) -> float:
    """Calls that fail do so soon."""
    monkeypatch.setattr("sqlflow_elastic.elastic.state.etcd_client.CALL_SECONDS", 1.0)
    return 1.0


class OwnEtcd:
    """An etcd that a test may stop and kill."""

    def __init__(self, folder: Path) -> None:
        self.server = Etcd(folder)
        self.process = self.server.serve()
        await_start(self.server, self.process, time.monotonic() + 30)
        self.url = self.server.url

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def restart(self) -> None:
        self.process = self.server.serve()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnEtcd]:
    if ETCD_VARIABLE not in os.environ:
        pytest.skip(f"{ETCD_VARIABLE} names no etcd")
    own = OwnEtcd(tmp_path)
    yield own
    own.kill()


@pytest.fixture
def cable(etcd_url: str) -> Iterator[Cable]:
    port = urlsplit(etcd_url).port
    assert port is not None
    with Cable(port) as cable:
        yield cable


def test_a_stopped_etcd_is_told_within_the_deadline_and_goes_on(own: OwnEtcd, call_seconds: float) -> None:
    with open_store(own.url) as store, store.watch("") as watch:
        lease = store.lease(60)
        store.write({"a": b"1"}, lease=lease)
        assert [change.key for change in watch.next(30)] == ["a"]
        own.process.send_signal(signal.SIGSTOP)
        for call in (
            lambda: store.write({"a": b"2"}),
            lambda: store.get("a"),
            lambda: store.lease(60),
            lambda: store.watch(""),
            lease.refresh,
            lambda: open_store(own.url),
        ):
            begin = time.monotonic()
            with pytest.raises(StoreUnavailable, match=f"^etcd at 127.0.0.1:{own.server.port} "):
                call()
            assert time.monotonic() - begin < 10 * call_seconds
        own.process.send_signal(signal.SIGCONT)
        wait_until(lambda: _written(store, "b"), 30)
        lease.refresh()
        assert "b" in [change.key for change in _gather(watch, until="b")]


def test_a_killed_etcd_is_told_and_store_watch_and_lease_go_on_with_the_next(own: OwnEtcd, call_seconds: float) -> None:
    with open_store(own.url) as store, store.watch("") as watch:
        lease = store.lease(60)
        first = store.write({"a": b"1"}, lease=lease)
        assert watch.next(30) == [Change("a", b"1", first)]
        own.kill()
        with pytest.raises(StoreUnavailable, match=rf"^etcd at 127\.0\.0\.1:{own.server.port} "):
            store.write({"a": b"2"})
        with pytest.raises(StoreUnavailable):
            watch.next(2)
        own.restart()
        wait_until(lambda: _opens(own.url), 30)
        # The watch comes back by itself, before its store is asked for anything.
        with open_store(own.url) as other:
            other.write({"b": b""})
        assert [change.key for change in _gather(watch, until="b")] == ["b"]
        lease.refresh()
        assert [entry.key for entry in store.list("")] == ["a", "b"]
        lease.revoke()
        assert [(change.key, change.value) for change in watch.next(30)] == [("a", None)]


def test_a_watch_misses_nothing_while_its_connection_is_cut(etcd_url: str, cable: Cable) -> None:
    with open_store(etcd_url) as direct, open_store(_through(cable, etcd_url)) as store, store.watch("") as watch:
        changes = [Change("a", b"0", direct.write({"a": b"0"}))]
        assert watch.next(30) == changes
        for number in range(3):
            cable.cut()
            changes = [
                Change("a", b"%d" % number, direct.write({"a": b"%d" % number})),
                Change("a", None, direct.write({"a": None})),
                Change("end", b"", direct.write({"end": b""})),
            ]
            cable.mend()
            assert _gather(watch, until="end") == changes


def test_a_watch_that_was_cut_off_for_long_gets_the_last_change_of_each_key(etcd_url: str, cable: Cable) -> None:
    with (
        open_store(etcd_url) as direct,
        open_store(_through(cable, etcd_url)) as store,
        store.watch("j/") as watch,
    ):
        first = direct.write({"j/kept": b"", "j/changed": b"", "j/gone": b""})
        assert len(watch.next(30)) == 3
        cable.cut()
        direct.write({"j/gone": None})
        for number in range(5):
            changed = direct.write({"j/changed": b"%d" % number})
        end = direct.write({"j/new": b"", "j/never": b""})
        direct.write({"j/never": None})
        _compact(etcd_url, direct.write({"other": b""}))
        cable.mend()
        changes = _gather(watch, until="j/gone")
        assert changes[:2] == [Change("j/changed", b"4", changed), Change("j/new", b"", end)]
        assert [(change.key, change.value) for change in changes[2:]] == [("j/gone", None)]
        again = direct.write({"j/gone": b""})
        assert watch.next(30) == [Change("j/gone", b"", again)]
        with pytest.raises(HistoryLost):
            direct.watch("j/", after=first)


def test_another_member_is_asked_when_one_fails(etcd_url: str, cable: Cable, call_seconds: float) -> None:
    port = urlsplit(etcd_url).port
    assert port is not None
    with Cable(port) as second:
        url = _through(cable, etcd_url).replace("/tests", f",127.0.0.1:{second.port}/tests")
        with open_store(url) as store, store.watch("") as watch:
            for number, broken in enumerate([cable, second, cable]):
                broken.cut()
                wait_until(lambda key=f"{number}": _written(store, key), 30)  # type: ignore[misc]
                assert [change.key for change in _gather(watch, until=f"{number}")] == [f"{number}"]
                broken.mend()


def test_a_member_that_does_not_answer_leaves_time_for_the_others(own: OwnEtcd, etcd_url: str) -> None:
    own.process.send_signal(signal.SIGSTOP)
    both = etcd_url.replace("@", f"@127.0.0.1:{own.server.port},")
    with open_store(both) as store:
        store.write({"a": b""})
    own.process.send_signal(signal.SIGCONT)


def test_a_token_that_etcd_forgot_is_made_anew(etcd_url: str, cable: Cable) -> None:
    with open_store(etcd_url) as direct, open_store(_through(cable, etcd_url)) as store, store.watch("") as watch:
        assert isinstance(store, EtcdStore)
        for call in (lambda: store.write({"a": b""}), lambda: store.get("a"), lambda: store.lease(60).refresh()):
            store._client._token = "forgotten.1"
            call()
        cable.cut()
        store._client._token = "forgotten.1"
        direct.write({"b": b""})
        cable.mend()
        assert [change.key for change in _gather(watch, until="b")] == ["a", "b"]


@pytest.mark.parametrize(
    ("account", "reason"),
    [
        (f"{USER}:wrong%20secret@", "authentication failed"),
        (f"nobody:{quote(PASSWORD, safe='')}@", "authentication failed"),
        ("", "user name is empty"),
    ],
)
def test_who_may_not_is_told_so_without_the_password(etcd_url: str, account: str, reason: str) -> None:
    parts = urlsplit(etcd_url)
    with pytest.raises(StoreUnavailable, match=reason) as caught:
        open_store(f"etcd://{account}127.0.0.1:{parts.port}{parts.path}")
    for text in (str(caught.value), repr(caught.value), repr(caught.value.__cause__)):
        assert "secret" not in text
        assert PASSWORD not in text


def test_a_prefix_of_others_is_refused(etcd_url: str) -> None:
    with pytest.raises(StoreUnavailable, match="permission denied"):
        open_store(etcd_url.replace("/tests", "/others"))


def test_stores_of_different_prefixes_do_not_meet(etcd_url: str) -> None:
    with open_store(etcd_url) as one, open_store(etcd_url + "/two") as two, two.watch("") as watch:
        one.write({"a": b"", "two": b""})
        assert two.list("") == []
        assert watch.next(0.1) == []
        two.write({"a": b""})
        assert [change.key for change in watch.next(30)] == ["a"]
        assert [entry.key for entry in one.list("")] == ["a", "two", "two/a"]


def test_a_proxy_of_the_environment_is_not_asked(etcd_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    open_store(etcd_url).close()


def test_it_speaks_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if ETCD_VARIABLE not in os.environ:
        pytest.skip(f"{ETCD_VARIABLE} names no etcd")
    _make_certificate(tmp_path)
    server = Etcd(tmp_path)
    server.scheme = "https"
    with ExitStack() as stack:
        process = server.serve(f"--cert-file={tmp_path}/cert.pem", f"--key-file={tmp_path}/key.pem")
        stack.callback(process.wait, 10)
        stack.callback(process.kill)
        url = f"etcds://127.0.0.1:{server.port}?ca={quote(str(tmp_path / 'cert.pem'))}"
        wait_until(lambda: _opens(url), 30)
        with open_store(url) as store, store.watch("") as watch:
            store.write({"a": b"1"})
            assert [change.key for change in watch.next(30)] == ["a"]
        monkeypatch.setattr("sqlflow_elastic.elastic.state.etcd_client.CALL_SECONDS", 1.0)
        with pytest.raises(StoreUnavailable, match="does not answer"):
            open_store(f"etcds://127.0.0.1:{server.port}")


def _make_certificate(folder: Path) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"),
        ],
        check=True,
        capture_output=True,
    )


def _written(store: StateStore, key: str) -> bool:
    try:
        store.write({key: b""}, {key: 0})
    except StoreUnavailable:
        return False
    return True


def _gather(watch: Watch, until: str) -> list[Change]:
    """The changes up to one of that key, though the store may be away meanwhile."""
    changes: list[Change] = []
    deadline = time.monotonic() + 30
    while until not in (change.key for change in changes) and time.monotonic() < deadline:
        try:
            changes += watch.next(0.5)
        except StoreUnavailable:
            continue
    return changes


def _opens(url: str) -> bool:
    try:
        open_store(url).close()
    except StoreUnavailable:
        return False
    return True


def _through(cable: Cable, url: str) -> str:
    return url.replace(f":{urlsplit(url).port}/", f":{cable.port}/")


def _compact(url: str, revision: int) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{urlsplit(url).port}") as channel:
        request = etcdrpc.AuthenticateRequest(name=USER, password=PASSWORD)
        token = etcdrpc.AuthStub(channel).Authenticate(request, timeout=5).token
        compaction = etcdrpc.CompactionRequest(revision=revision, physical=True)
        etcdrpc.KVStub(channel).Compact(compaction, timeout=5, metadata=[("token", token)])
