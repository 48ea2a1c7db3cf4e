"""What differs between the engines in the tests: their types, long queries, big results."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

US, UTC = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
TIME = pa.time64("us")
DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(2024, 2, 29, 13, 45, 6, 123456)
ZONED = datetime.datetime(2024, 2, 29, 8, 15, 6, 123456, tzinfo=datetime.UTC)
HALF_PAST = datetime.time(13, 30, 0, 500000)
WIDE = Decimal("12345678901234567890123456789012345.123456789012345678901234567890")
TEXT = "中文 😀 ''quoted'' 100%"
SHOWN = TEXT.replace("''", "'")


@dataclass(frozen=True)
class Typed:
    """A column type of an engine: its declaration, a literal, and what must arrive."""

    declaration: str
    literal: str
    arrow: pa.DataType
    value: Any


TYPES: dict[str, list[Typed]] = {
    "duckdb": [
        Typed("TINYINT", "-128", pa.int64(), -128),
        Typed("UTINYINT", "255", pa.int64(), 255),
        Typed("INTEGER", "-2147483648", pa.int64(), -2147483648),
        Typed("UINTEGER", "4294967295", pa.int64(), 4294967295),
        Typed("BIGINT", "9223372036854775807", pa.int64(), 9223372036854775807),
        Typed("UBIGINT", "18446744073709551615", pa.uint64(), 18446744073709551615),
        Typed("HUGEINT", "-170141183460469231731687303715884105", pa.decimal128(38, 0), Decimal(-(2**127) // 1000 + 1)),
        Typed("FLOAT", "0.1", pa.float32(), 0.10000000149011612),
        Typed("DOUBLE", "0.1", pa.float64(), 0.1),
        Typed("DECIMAL(38, 10)", "1234567890123456789012345678.0123456789", pa.decimal128(38, 10), None),
        Typed("BOOLEAN", "true", pa.bool_(), True),
        Typed("VARCHAR", f"'{TEXT}'", pa.string(), SHOWN),
        Typed("BLOB", "'\\x00\\xFF'", pa.binary(), b"\x00\xff"),
        Typed("DATE", "'2024-02-29'", pa.date32(), DAY),
        Typed("TIME", "'13:30:00.5'", TIME, HALF_PAST),
        Typed("TIMESTAMP", "'2024-02-29 13:45:06.123456'", US, MOMENT),
        Typed("TIMESTAMP_S", "'2024-02-29 13:45:06'", US, MOMENT.replace(microsecond=0)),
        Typed("TIMESTAMP_NS", "'2024-02-29 13:45:06.123456789'", US, MOMENT),
        Typed("TIMESTAMPTZ", "'2024-02-29 13:45:06.123456+05:30'", UTC, ZONED),
        Typed("UUID", "'123e4567-e89b-12d3-a456-426614174000'", pa.string(), "123e4567-e89b-12d3-a456-426614174000"),
        Typed("ENUM('a', 'b')", "'b'", pa.string(), "b"),
        Typed("INTEGER[]", "[1, NULL, 3]", pa.string(), "[1, NULL, 3]"),
        Typed("INTERVAL", "INTERVAL 90 MINUTE", pa.string(), "01:30:00"),
    ],
    "sqlite": [
        Typed("INTEGER", "-9223372036854775808", pa.int64(), -9223372036854775808),
        Typed("REAL", "0.1", pa.float64(), 0.1),
        Typed("DOUBLE PRECISION", "1", pa.float64(), 1.0),
        Typed("BOOLEAN", "1", pa.bool_(), True),
        Typed("DECIMAL(10, 2)", "12.34", pa.decimal128(10, 2), Decimal("12.34")),
        Typed("VARCHAR(100)", f"'{TEXT}'", pa.string(), SHOWN),
        Typed("BLOB", "x'00ff'", pa.binary(), b"\x00\xff"),
        Typed("DATE", "'2024-02-29'", pa.date32(), DAY),
        Typed("TIME", "'13:30:00.5'", TIME, HALF_PAST),
        Typed("DATETIME", "'2024-02-29 13:45:06.123456'", US, MOMENT),
        # Values that do not keep to their declaration decide themselves.
        Typed("INTEGER", "'many'", pa.string(), "many"),
        Typed("DATE", "'yesterday'", pa.string(), "yesterday"),
        Typed("BOOLEAN", "2", pa.int64(), 2),
        Typed("DATETIME", "1709214306", pa.int64(), 1709214306),
        Typed("", "1.5", pa.float64(), 1.5),
    ],
    "mysql": [
        Typed("TINYINT(1)", "1", pa.int64(), 1),
        Typed("SMALLINT UNSIGNED", "65535", pa.int64(), 65535),
        Typed("INT UNSIGNED", "4294967295", pa.int64(), 4294967295),
        Typed("BIGINT", "-9223372036854775808", pa.int64(), -9223372036854775808),
        Typed("BIGINT UNSIGNED", "18446744073709551615", pa.uint64(), 18446744073709551615),
        Typed("INT ZEROFILL", "7", pa.int64(), 7),
        Typed("BIT(3)", "b'101'", pa.int64(), 5),
        Typed("BIT(64)", "18446744073709551615", pa.uint64(), 18446744073709551615),
        Typed("YEAR", "2024", pa.int64(), 2024),
        Typed("FLOAT", "0.5", pa.float32(), 0.5),
        Typed("DOUBLE", "0.1", pa.float64(), 0.1),
        Typed("DECIMAL(10, 2)", "-12345678.90", pa.decimal128(10, 2), Decimal("-12345678.90")),
        Typed("DECIMAL(10, 2) UNSIGNED", "12345678.90", pa.decimal128(10, 2), Decimal("12345678.90")),
        Typed("DECIMAL(65, 30)", str(WIDE), pa.decimal256(65, 30), WIDE),
        Typed("VARCHAR(100)", f"'{TEXT}'", pa.string(), SHOWN),
        Typed("VARCHAR(100) CHARACTER SET latin1", "'é'", pa.string(), "é"),
        Typed("LONGTEXT", "'a\\\\b'", pa.string(), "a\\b"),
        Typed("ENUM('x', 'y')", "'y'", pa.string(), "y"),
        Typed("SET('x', 'y')", "'x,y'", pa.string(), "x,y"),
        Typed("JSON", "'{\"a\": 1}'", pa.string(), '{"a": 1}'),
        Typed("VARBINARY(10)", "x'00ff'", pa.binary(), b"\x00\xff"),
        Typed("LONGBLOB", "x'00ff'", pa.binary(), b"\x00\xff"),
        Typed("DATE", "'2024-02-29'", pa.date32(), DAY),
        Typed("DATE", "'0000-00-00'", pa.date32(), None),
        Typed("DATETIME", "'2024-00-00 00:00:00'", US, None),
        Typed("TIME(1)", "'13:30:00.5'", TIME, HALF_PAST),
        Typed("DATETIME(6)", "'2024-02-29 13:45:06.123456'", US, MOMENT),
        Typed("TIMESTAMP(6) NULL", "'2024-02-29 13:45:06.123456'", US, MOMENT),
    ],
    "postgresql": [
        Typed("SMALLINT", "-32768", pa.int64(), -32768),
        Typed("INTEGER", "-2147483648", pa.int64(), -2147483648),
        Typed("BIGINT", "9223372036854775807", pa.int64(), 9223372036854775807),
        Typed("REAL", "0.1", pa.float32(), 0.10000000149011612),
        Typed("DOUBLE PRECISION", "0.1", pa.float64(), 0.1),
        Typed("DOUBLE PRECISION", "'-Infinity'", pa.float64(), float("-inf")),
        Typed("NUMERIC(10, 2)", "-12345678.90", pa.decimal128(10, 2), Decimal("-12345678.90")),
        Typed("NUMERIC(65, 30)", str(WIDE), pa.decimal256(65, 30), WIDE),
        Typed("NUMERIC", "1.25", pa.float64(), 1.25),
        Typed("NUMERIC", "'-Infinity'", pa.float64(), float("-inf")),
        Typed("BOOLEAN", "false", pa.bool_(), False),
        Typed("TEXT", f"'{TEXT}'", pa.string(), SHOWN),
        Typed("TEXT", "''", pa.string(), ""),
        Typed("TEXT", "E'a,\"b\"\\n\\\\.'", pa.string(), 'a,"b"\n\\.'),
        Typed("CHAR(3)", "'a'", pa.string(), "a  "),
        Typed("BYTEA", "'\\x00ff'", pa.binary(), b"\x00\xff"),
        Typed("DATE", "'2024-02-29'", pa.date32(), DAY),
        Typed("DATE", "'infinity'", pa.date32(), None),
        Typed("TIME", "'13:30:00.5'", TIME, HALF_PAST),
        Typed("TIMESTAMP", "'2024-02-29 13:45:06.123456'", US, MOMENT),
        Typed("TIMESTAMP", "'-infinity'", US, None),
        Typed("TIMESTAMPTZ", "'2024-02-29 13:45:06.123456+05:30'", UTC, ZONED),
        Typed("JSONB", "'{\"a\": 1}'", pa.string(), '{"a": 1}'),
        Typed("UUID", "'123e4567-e89b-12d3-a456-426614174000'", pa.string(), "123e4567-e89b-12d3-a456-426614174000"),
        Typed("INTEGER[]", "'{1,NULL,3}'", pa.string(), "{1,NULL,3}"),
        Typed("INTERVAL", "'90 minutes'", pa.string(), "01:30:00"),
    ],
}

#: Row numbers from 1, as ``n``, without a table.
NUMBERS = {
    "duckdb": "SELECT range AS n FROM range(1, {rows} + 1)",
    "sqlite": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {rows}) SELECT n FROM r",
    "mysql": "SELECT seq AS n FROM seq_1_to_{rows}",
    "postgresql": "SELECT generate_series(1, {rows}) AS n",
}

#: Queries that take minutes and give one row.
ENDLESS = {
    "duckdb": "SELECT count(*) FROM range(1000000000000) AS r(a) WHERE hash(a) % 7 = 3",
    "sqlite": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "mysql": "SELECT BENCHMARK(1000000000000, MD5('x'))",
    "postgresql": "SELECT count(*) FROM generate_series(1, 1000000000000) AS n WHERE n % 7 = 3",
}


def numbers(kind: str, rows: int) -> str:
    """A query of the numbers 1 … rows, in order."""
    return NUMBERS[kind].format(rows=rows)
