"""Makes Python of the proto files: ``python -m tests.elastic.proto.generate``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROTO = ROOT / "sqlflow_elastic" / "elastic" / "proto" / "master.proto"


def generate(into: Path) -> None:
    """Write the modules of `PROTO` below ``into``, as they lie below the repository.

    The compiler has a process of its own: beside TensorFlow's library and others' it dies of a segmentation fault.
    """
    options = [f"--proto_path={ROOT}", f"--python_out={into}", f"--pyi_out={into}", f"--grpc_python_out={into}"]
    command = [sys.executable, "-m", "grpc_tools.protoc", *options, str(PROTO.relative_to(ROOT))]
    subprocess.run(command, check=True, timeout=60)


if __name__ == "__main__":
    generate(ROOT)
