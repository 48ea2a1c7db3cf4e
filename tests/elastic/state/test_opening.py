"""From a URL to a store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sqlflow_elastic.elastic.state import StoreUnavailable, open_store
from sqlflow_elastic.elastic.state.etcd_address import EtcdAddress
from tests.services import free_port


def test_a_path_and_a_file_url_name_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a state é%.db"
    with open_store(str(path)) as store:
        store.write({"a": b""})
    with open_store(path.as_uri()) as store:
        assert store.get("a") is not None
    monkeypatch.chdir(tmp_path)
    with open_store(path.name) as store:
        assert store.get("a") is not None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nul\0byte.db",
        "file://",
        "file:///",
        "file://host/state.db",
        "file:///state.db?mode=ro",
        "file://[/state.db",
        "mysql://user:secret@host/db",
        "etcd://",
        "etcd:///prefix",
        "etcd://host:port",
        "etcd://host:99999",
        "etcd://host,",
        "etcd://user@host",
        "etcd://:secret@host",
        "etcd://user:secr/et@host:1",
        "etcd://user:secret?@host:1",
        "etcd://user:secret#@host:1",
        "etcd://user:secret@[::1",
        "etcd://user:secret@host:1/prefix#part",
        "etcd://user:secret@host:1/?ca=/ca.pem",
        "etcds://user:secret@host:1/?other=1",
        "etcds://user:secret@host:1/?cert=/cert.pem",
        "etcds://user:secret@host:1/?ca=/nowhere/ca.pem",
    ],
)
def test_what_names_no_store_is_told_without_its_secrets(url: str) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        open_store(url)
    assert "secr" not in str(caught.value)
    assert caught.value.__cause__ is None or "secr" not in str(caught.value.__cause__)


def test_an_etcd_url_has_its_parts() -> None:
    address = EtcdAddress.parse("etcds://us%40er:p%2Fw@one:1,two,[::1]:3/a/b%20c/?ca=/ca.pem&cert=/c.pem&key=/k.pem")
    assert address == EtcdAddress(
        hosts=("one:1", "two:2379", "[::1]:3"),
        prefix="a/b c/",
        user="us@er",
        password="p/w",
        secure=True,
        ca="/ca.pem",
        certificate="/c.pem",
        key="/k.pem",
    )
    assert "p/w" not in repr(address)
    assert EtcdAddress.parse("etcd://host") == EtcdAddress(hosts=("host:2379",), prefix="sqlflow-elastic/")


def test_an_etcd_that_is_not_there_is_told_within_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlflow_elastic.elastic.state.etcd_client.CALL_SECONDS", 0.5)
    port = free_port()
    with pytest.raises(StoreUnavailable, match=f"^etcd at 127.0.0.1:{port} does not answer$"):
        open_store(f"etcd://user:secret@127.0.0.1:{port}")


def test_the_package_is_cheap_to_import() -> None:
    command = (
        "import sqlflow_elastic.elastic.state, sys; print({'grpc', 'pyetcd', 'tensorflow', 'numpy'} & {*sys.modules})"
    )
    assert subprocess.check_output([sys.executable, "-c", command], text=True) == "set()\n"
