"""How members of a world exchange gradients and state. `base` is the contract; an `Endpoint` makes communicators.

Nothing here imports TensorFlow.
"""

from sqlflow_elastic.elastic.comm.base import Communicator, Place, WireDtype, WorldBroken
from sqlflow_elastic.elastic.comm.endpoint import Endpoint

__all__ = ["Communicator", "Endpoint", "Place", "WireDtype", "WorldBroken"]
