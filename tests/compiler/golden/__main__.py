"""Write the golden programs anew."""

from __future__ import annotations

import tempfile
from pathlib import Path

from sqlflow_elastic.datasource import open_source
from tests.compiler.database import compile_text, fill
from tests.compiler.golden.statements import FOLDER, statements

with tempfile.TemporaryDirectory() as folder, open_source("duckdb://") as source:
    fill(source, Path(folder))
    for name, text in statements().items():
        (FOLDER / f"{name}.py").write_text(compile_text(text, source).program, encoding="utf-8")
