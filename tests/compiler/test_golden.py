"""Programs stay as they are in golden/, and are what a person would have written: valid, clean and formatted."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from sqlflow_elastic.datasource import DataSource
from tests.compiler.database import compile_text
from tests.compiler.golden.statements import FOLDER, statements


@pytest.mark.parametrize("name", statements())
def test_program_is_the_golden_one(name: str, source: DataSource) -> None:
    program = compile_text(statements()[name], source).program
    assert program == (FOLDER / f"{name}.py").read_text(encoding="utf-8"), "see golden/__init__.py"
    ast.parse(program)


def test_golden_folder_holds_nothing_else() -> None:
    programs = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "__main__", "statements"}
    assert programs == set(statements())


def test_programs_are_clean_and_formatted() -> None:
    programs = [str(FOLDER / f"{name}.py") for name in statements()]
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--select", "F,E9,I"], ["format", "--check"]):
        done = subprocess.run([*ruff, *command, *programs], capture_output=True, text=True, timeout=60, cwd=_root())
        assert done.returncode == 0, done.stdout + done.stderr


def _root() -> Path:
    return Path(__file__).parents[2]
