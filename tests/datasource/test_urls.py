"""URLs of data sources, without a database."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlflow_elastic.datasource import mask_url
from sqlflow_elastic.datasource.urls import file_of, kind_of, secrets, server_url
from sqlflow_elastic.errors import DataSourceError


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("duckdb://", "duckdb"),
        ("duckdb:///a/b.db", "duckdb"),
        ("some/iris.db", "duckdb"),
        ("iris.duckdb", "duckdb"),
        ("sqlite:///a.db", "sqlite"),
        ("mysql://h/d", "mysql"),
        ("mysql+pymysql://h/d", "mysql"),
        ("mariadb://h/d", "mysql"),
        ("mysql://root:root@tcp(127.0.0.1:3306)/iris?maxAllowedPacket=0", "mysql"),
        ("postgresql://h/d", "postgresql"),
        ("postgres://h/d", "postgresql"),
        ("postgresql+psycopg://h/d", "postgresql"),
    ],
)
def test_kinds(url: str, kind: str) -> None:
    assert kind_of(url) == kind


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysq://h/d", "no data source of kind 'mysq'; did you mean 'mysql'?"),
        ("oracle://h/d", "no data source of kind 'oracle'; known are duckdb, mysql, postgresql, sqlite"),
        ("iris.csv", "'iris.csv' is no data source: give a URL like duckdb:///file.db, or a .db file"),
        ("", "'' is no data source: give a URL like duckdb:///file.db, or a .db file"),
    ],
)
def test_what_is_no_data_source(url: str, message: str) -> None:
    with pytest.raises(DataSourceError) as caught:
        kind_of(url)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("duckdb://", ""),
        ("duckdb:///:memory:", ""),
        ("duckdb:///iris.db", "iris.db"),
        ("duckdb:////tmp/my%20iris.db", "/tmp/my iris.db"),
        ("data/iris.db", "data/iris.db"),
    ],
)
def test_files(url: str, file: str) -> None:
    assert file_of(url) == (file, {})


def test_options_of_files() -> None:
    assert file_of("sqlite:///a.db?mode=ro") == ("a.db", {"mode": "ro"})


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("mysql://root:root@h:3306/d", "mysql://root:***@h:3306/d"),
        ("mysql://root:root@tcp(h:3306)/d?x=1", "mysql://root:***@tcp(h:3306)/d?x=1"),
        ("postgresql://u:p%40%2F@h/d", "postgresql://u:***@h/d"),
        ("mysql://u:p@ss/w:rd@h/d", "mysql://u:***@h/d"),
        ("postgresql://h/d?user=u&password=secret&x=1", "postgresql://h/d?user=u&password=***&x=1"),
        ("mysql://h/d?ssl_key_password=a&passwd=b", "mysql://h/d?ssl_key_password=***&passwd=***"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("duckdb:///a.db", "duckdb:///a.db"),
    ],
)
def test_masking(url: str, masked: str) -> None:
    assert mask_url(url) == masked


@given(password=st.text(min_size=4, alphabet=st.characters(exclude_characters="*", exclude_categories=["Cs"])))
def test_no_password_survives_masking(password: str) -> None:
    for written in (quote(password, safe=""), password):
        url = f"mysql://user:{written}@host:3306/db"
        assert mask_url(url) == "mysql://user:***@host:3306/db"
        assert written in secrets(url)
    assert password in secrets(f"mysql://user:{quote(password, safe='')}@host/db")


def test_the_go_drivers_address() -> None:
    assert server_url("mysql://r:p@tcp(127.0.0.1:3306)/d?a=1") == "mysql://r:p@127.0.0.1:3306/d?a=1"
    assert server_url("mysql://r:p@h/d") == "mysql://r:p@h/d"


@pytest.mark.parametrize("url", ["mysql://u:p@ss/w:rd@h/d", "postgresql://u:p@s@h/d?x=1", "mysql://u:p@s@tcp(h:1)/d"])
def test_a_password_with_an_at_sign_is_not_taken_for_a_server(url: str) -> None:
    with pytest.raises(DataSourceError) as caught:
        server_url(url)
    assert str(caught.value).startswith(
        f"cannot read the URL {mask_url(url)}: it has more than one @; in a password write "
    )
