"""Where the state of jobs is kept: one interface, an embedded store on one machine, etcd in a cluster."""

from sqlflow_elastic.elastic.state.base import (
    CALL_SECONDS,
    Change,
    Conflict,
    Entry,
    HistoryLost,
    Lease,
    LeaseLost,
    StateStore,
    Watch,
)
from sqlflow_elastic.elastic.state.opening import open_store
from sqlflow_elastic.errors import StoreUnavailable

__all__ = [
    "CALL_SECONDS",
    "Change",
    "Conflict",
    "Entry",
    "HistoryLost",
    "Lease",
    "LeaseLost",
    "StateStore",
    "StoreUnavailable",
    "Watch",
    "open_store",
]
