"""Before members of a world take steps together, they make sure that they go on from the same place.

Members with the same number of steps can differ in one thing: at the end of an epoch a world may break when some have
the validation's numbers and others lack a part of them. Those who lack it take them over.
"""

from __future__ import annotations

import dataclasses
import json

from sqlflow_elastic.elastic.position import Position
from sqlflow_elastic.elastic.replica import Exchange
from sqlflow_elastic.elastic.training_state import TrainingState
from sqlflow_elastic.errors import JobError


def agree(world: Exchange, state: TrainingState) -> bool:
    """Bring a member to where the others are. Returns whether it took over the end of an epoch.

    Raises:
        JobError: members train something else, or are not at the same step.
        comm.WorldBroken: the state is as it was, or is agreed on.
    """
    own = {"training": state.fingerprint, "position": dataclasses.asdict(state.position)}
    said = [json.loads(bytes(each)) for each in world.allgather(json.dumps(own).encode())]
    if any((each["training"], each["position"]["step"]) != (state.fingerprint, state.position.step) for each in said):
        raise JobError("the members of a world do not go on from the same step of the same training")
    furthest = Position(**max((each["position"] for each in said), key=lambda position: int(position["epoch"])))
    if furthest.epoch == state.position.epoch:
        return False
    state.position = furthest
    if state.keeps_best and furthest.waited == 0:
        state.keep_best()
    return True
