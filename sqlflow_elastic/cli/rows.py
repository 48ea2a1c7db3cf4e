"""Result rows on standard output: as a table for people, as JSON lines or CSV for programs."""

from __future__ import annotations

import abc
import base64
import csv
import datetime
import decimal
import io
import json
import math
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from rich.table import Table

_CELL_CHARACTERS = 2000
_TEXT_COLUMN = 16  # cells a text column gets at least, if it needs them, before columns are left out
_UNLIMITED = 1 << 20


class RowPrinter(abc.ABC):
    """Prints one result after the other; each is `add`ed in batches and `end`ed."""

    @abc.abstractmethod
    def add(self, batch: pa.RecordBatch) -> None:
        """Take more rows of the result; the first batch of a result brings its columns."""

    @abc.abstractmethod
    def end(self) -> str | None:
        """The result is whole. What was left out, for people to know; None: nothing."""


class JsonPrinter(RowPrinter):
    """One JSON object a row and line.

    Numbers stay numbers (decimals too, as floats unless they are whole), dates and times are ISO 8601 text, bytes are
    base64, NULL, NaN and infinities are null.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def add(self, batch: pa.RecordBatch) -> None:
        """See `RowPrinter.add`."""
        columns = [map(_json_value, values_of(column)) for column in batch.columns]
        for row in zip(*columns, strict=True):
            values = dict(zip(batch.schema.names, row, strict=True))
            self._out.write(json.dumps(values, ensure_ascii=False) + "\n")

    def end(self) -> None:
        """See `RowPrinter.end`."""
        self._out.flush()


class CsvPrinter(RowPrinter):
    """RFC 4180 with a header line, lines ended by LF; NULL is an empty field."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._begun = False

    def add(self, batch: pa.RecordBatch) -> None:
        """See `RowPrinter.add`."""
        writer = csv.writer(self._out, lineterminator="\n")
        if not self._begun:
            self._begun = True
            writer.writerow(batch.schema.names)
        columns = [values_of(column) for column in batch.columns]
        writer.writerows(
            ["" if value is None else text_of(value) for value in row] for row in zip(*columns, strict=True)
        )

    def end(self) -> None:
        """See `RowPrinter.end`."""
        self._begun = False
        self._out.flush()


class TablePrinter(RowPrinter):
    """A table with at most ``max_rows`` rows (0: all) that fits into ``width`` cells (None: as wide as it gets)."""

    def __init__(self, out: TextIO, max_rows: int, width: int | None) -> None:
        self._out = out
        self._max_rows = max_rows or None
        self._width = width or _UNLIMITED
        self._batches: list[pa.RecordBatch] = []
        self._kept = 0
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """See `RowPrinter.add`."""
        kept = batch if self._max_rows is None else batch.slice(0, self._max_rows - self._kept)
        self._kept += kept.num_rows
        self._rows += batch.num_rows
        if kept.num_rows or not self._batches:
            self._batches.append(kept)

    def end(self) -> str | None:
        """See `RowPrinter.end`."""
        from rich.console import Console

        table, columns_left = _table(pa.Table.from_batches(self._batches), self._width)
        rendered = io.StringIO()
        Console(file=rendered, width=self._width, color_system=None, legacy_windows=False).print(table)
        self._out.write("".join(line.rstrip() + "\n" for line in rendered.getvalue().splitlines()))
        self._out.flush()
        left = [f"{columns_left:,} more column{'s' * (columns_left > 1)}"] if columns_left else []
        if rows_left := self._rows - self._kept:
            left.append(f"{rows_left:,} more row{'s' * (rows_left > 1)}")
        self._batches, self._kept, self._rows = [], 0, 0
        return f"… {' and '.join(left)} not shown" if left else None


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """A column's values as Python's; a float32 is the shortest number that is rounded to it: 0.1, not 0.10000000149."""
    values: list[Any] = column.to_pylist()
    if column.type == pa.float32():
        return [None if value is None else float(str(np.float32(value))) for value in values]
    return values


def text_of(value: Any) -> str:
    """A value for people and for CSV; None is NULL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return str(value)


def _json_value(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return str(value)
    return value


def _table(rows: pa.Table, width: int) -> tuple[Table, int]:
    """The table of as many columns as fit side by side, and the number of those that do not."""
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), header_style="")
    columns: list[list[str]] = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        cells = [_cell(value) for value in values_of(column)]
        number = (
            pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
        )
        header = _cell(name)
        needed = max(map(cell_len, [header, *cells]))
        least = needed if number else min(needed, _TEXT_COLUMN)
        if columns and least + 3 > width:
            break
        width -= least + 3
        columns.append(cells)
        table.add_column(
            Text(header),
            justify="right" if number else "left",
            overflow="fold",
            no_wrap=number,
            min_width=min(least, width),
        )
    for row in zip(*columns, strict=True):
        table.add_row(*map(Text, row))
    return table, rows.num_columns - len(columns)


def _cell(value: Any) -> str:
    """A value's text in a table: no control characters (they would move the cursor), not endless."""
    text = text_of(value)
    if len(text) > _CELL_CHARACTERS:
        text = text[:_CELL_CHARACTERS] + "…"
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
