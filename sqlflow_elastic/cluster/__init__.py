"""Where a job's processes run. `base` is the contract; `local` forks them on this machine."""

from sqlflow_elastic.cluster.base import (
    CLUSTER_VARIABLE,
    AlreadyStarted,
    Cluster,
    Phase,
    Process,
    ProcessSpec,
    Role,
    Status,
    Watch,
)
from sqlflow_elastic.cluster.client import connect
from sqlflow_elastic.cluster.local import LocalCluster

__all__ = [
    "CLUSTER_VARIABLE",
    "AlreadyStarted",
    "Cluster",
    "LocalCluster",
    "Phase",
    "Process",
    "ProcessSpec",
    "Role",
    "Status",
    "Watch",
    "connect",
]
