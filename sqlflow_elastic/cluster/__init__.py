"""Where a job's processes run. `base` is the contract; `local` forks them on this machine."""

from sqlflow_elastic.cluster.base import Cluster, Process, ProcessSpec
from sqlflow_elastic.cluster.local import LocalCluster

__all__ = ["Cluster", "LocalCluster", "Process", "ProcessSpec"]
