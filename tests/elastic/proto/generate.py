"""Makes Python of the proto files: ``python -m tests.elastic.proto.generate``."""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[3]
PROTO = ROOT / "sqlflow_elastic" / "elastic" / "proto" / "master.proto"


def generate(into: Path) -> None:
    """Write the modules of `PROTO` below ``into``, as they lie below the repository."""
    code = protoc.main(
        [
            "protoc",
            f"--proto_path={ROOT}",
            f"--python_out={into}",
            f"--pyi_out={into}",
            f"--grpc_python_out={into}",
            str(PROTO.relative_to(ROOT)),
        ]
    )
    if code:
        sys.exit(code)


if __name__ == "__main__":
    generate(ROOT)
