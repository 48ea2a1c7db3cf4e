"""Statements of the database's own language: passed on, their rows passed back."""

from __future__ import annotations

import pyarrow as pa

from sqlflow_elastic.events import Rows
from sqlflow_elastic.language import ast
from sqlflow_elastic.session.background import Emit
from sqlflow_elastic.session.context import Context, Outcome, Running, rows_text


def run_plain(context: Context, statement: ast.PlainSQL) -> Running:
    """Execute it, streaming its rows."""

    def call(emit: Emit) -> Outcome:
        answer = context.source.execute(statement.text)
        if answer is None:
            return Outcome("OK")
        if isinstance(answer, int):
            return Outcome(f"OK, {rows_text(answer)} affected", {"rows_affected": answer})
        rows = 0
        emit(Rows(pa.RecordBatch.from_pylist([], schema=answer.schema)))
        for batch in answer.batches:
            rows += batch.num_rows
            emit(Rows(batch))
        return Outcome(rows_text(rows), {"rows": rows})

    return (yield from context.database.run(call))
