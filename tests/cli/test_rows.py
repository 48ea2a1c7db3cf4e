"""Rows as tables, JSON lines and CSV."""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import json

import pyarrow as pa
import pytest

from sqlflow_elastic.cli.rows import CsvPrinter, JsonPrinter, RowPrinter, TablePrinter


def printed(printer: RowPrinter, out: io.StringIO, *batches: pa.RecordBatch) -> tuple[list[str], str | None]:
    for batch in batches:
        printer.add(batch)
    left = printer.end()
    return out.getvalue().splitlines(), left


def as_table(*batches: pa.RecordBatch, max_rows: int = 100, width: int | None = None) -> tuple[list[str], str | None]:
    out = io.StringIO()
    return printed(TablePrinter(out, max_rows, width), out, *batches)


def test_a_table_aligns_numbers_right_and_shows_null() -> None:
    lines, left = as_table(pa.record_batch({"id": [7, None, 1234], "name": ["a", "bc", None]}))
    assert lines == [
        "  id   name",
        "───────────",
        "   7   a",
        "NULL   bc",
        "1234   NULL",
    ]
    assert left is None


def test_wide_characters_take_two_cells() -> None:
    lines, _ = as_table(pa.record_batch({"城市": ["北京", "x"], "n": [1, 2]}))
    assert lines == ["城市   n", "────────", "北京   1", "x      2"]


def test_rows_beyond_the_limit_are_counted_over_all_batches() -> None:
    batch = pa.record_batch({"a": list(range(60))})
    lines, left = as_table(batch, batch, max_rows=100)
    assert len(lines) == 102
    assert left == "… 20 more rows not shown"
    assert as_table(batch, batch, max_rows=0)[1] is None


def test_columns_that_do_not_fit_are_counted() -> None:
    lines, left = as_table(pa.record_batch({f"column_{i}": [i] for i in range(30)}), width=60)
    assert max(map(len, lines)) <= 60
    assert left == "… 25 more columns not shown"


def test_long_text_folds_into_the_width() -> None:
    lines, left = as_table(pa.record_batch({"a": [1], "text": ["word " * 40]}), width=40)
    assert max(map(len, lines)) <= 40
    assert " ".join(line[1:] for line in lines[2:]).split() == ["word"] * 40
    assert left is None


def test_control_characters_do_not_reach_the_terminal() -> None:
    lines, _ = as_table(pa.record_batch({"a\x1b": ["\x1b[31mred\x07", "two\nlines"]}))
    assert [line.strip() for line in lines] == ["a\\x1b", "─" * 15, "\\x1b[31mred\\x07", "two", "lines"]


def test_a_printer_takes_one_result_after_the_other() -> None:
    out = io.StringIO()
    printer = TablePrinter(out, 1, None)
    printed(printer, out, pa.record_batch({"a": [1, 2]}))
    lines, left = printed(printer, out, pa.record_batch({"b": [3]}))
    assert lines[3:] == ["b", "─", "3"]
    assert left is None


VALUES: dict[str, tuple[pa.Array, list[object], list[str]]] = {
    "number": (pa.array([1.5, float("nan"), None]), [1.5, None, None], ["1.5", "nan", ""]),
    "single": (pa.array([0.1, 6.4, None], pa.float32()), [0.1, 6.4, None], ["0.1", "6.4", ""]),
    "whole": (
        pa.array([decimal.Decimal("7.00"), decimal.Decimal("0.25"), None]),
        [7, 0.25, None],
        ["7.00", "0.25", ""],
    ),
    "text": (pa.array(['a,"b"\nc', "中文", None]), ['a,"b"\nc', "中文", None], ['a,"b"\nc', "中文", ""]),
    "flag": (pa.array([True, False, None]), [True, False, None], ["true", "false", ""]),
    "bytes": (pa.array([b"\x00\xff", b"", None]), ["AP8=", "", None], ["00ff", "", ""]),
    "day": (pa.array([datetime.date(2024, 2, 29), None]), ["2024-02-29", None], ["2024-02-29", ""]),
    "moment": (
        pa.array([datetime.datetime(2024, 2, 29, 12, 30), None]),
        ["2024-02-29T12:30:00", None],
        ["2024-02-29 12:30:00", ""],
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_json_and_csv_say_the_same(name: str) -> None:
    column, in_json, in_csv = VALUES[name]
    batch = pa.record_batch({name: column})
    out = io.StringIO()
    lines, _ = printed(JsonPrinter(out), out, batch.slice(0, 1), batch.slice(1))
    assert [json.loads(line) for line in lines] == [{name: value} for value in in_json]
    out = io.StringIO(newline="")
    printed(CsvPrinter(out), out, batch.slice(0, 1), batch.slice(1))
    out.seek(0)
    assert list(csv.reader(out)) == [[name], *([value] for value in in_csv)]
