"""Run every benchmark, one after the other: ``python -m benchmarks [name …]``. Exit code 1 if one missed its bound."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
#: Processes of benchmarks.
_PROCESSES = ("case_jobs", "click_model", "peers")


def main() -> int:
    """Run them, then say which missed."""
    names = sys.argv[1:] or sorted(path.stem for path in HERE.glob("[!_]*.py") if _is_one(path))
    missed = []
    for name in names:
        print(f"\n── {name} " + "─" * (100 - len(name)), flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=HERE.parent, check=False).returncode:
            missed.append(name)
    print("\nall bounds held" if not missed else f"\nmissed: {', '.join(missed)}")
    return 1 if missed else 0


def _is_one(path: Path) -> bool:
    """Whether a file is a benchmark, and not a part of others."""
    return path.stem not in _PROCESSES and 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
