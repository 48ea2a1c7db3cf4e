"""Sessions: programs in, events out. What every front calls."""

from sqlflow_elastic.session.session import Session, connect

__all__ = ["Session", "connect"]
