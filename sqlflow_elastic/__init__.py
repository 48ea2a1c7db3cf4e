"""SQL in, trained model out.

import sqlflow_elastic

with sqlflow_elastic.connect("duckdb:///shop.duckdb") as session:
    for event in session.execute("SELECT * FROM iris TO TRAIN DNNClassifier … INTO my_model"):
        print(event)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlflow_elastic.session import Session, connect

    __version__: str

__all__ = ["Session", "__version__", "connect"]


def __getattr__(name: str) -> Any:
    # Loaded when first used: a job's process needs no session.
    if name == "__version__":
        from importlib.metadata import version

        return version("sqlflow-elastic")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sqlflow_elastic import session

    return getattr(session, name)
