"""The program of a job under attack: it counts how often each sample was trained on, and keeps real checkpoints.

It takes its time until it is told to hurry, so that attacks decide how long a test takes and not the machine.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from enum import StrEnum

import numpy as np

from sqlflow_elastic.elastic.checkpoints import Checkpoint, CheckpointFolder
from sqlflow_elastic.elastic.folder import JobFolder, write_json, write_text
from sqlflow_elastic.elastic.running import Run, running
from sqlflow_elastic.errors import DataError
from tests.elastic.counting import Counting

#: Rows of the training, samples of a step, passes over the rows.
ROWS, BATCH_SIZE, EPOCHS = 240, 12, 150
STEPS = ROWS // BATCH_SIZE * EPOCHS

_SAMPLE_SECONDS = 0.006
_CHECKPOINT_STEPS, _HURRIED_CHECKPOINT_STEPS = 3, 100
HURRY = "hurry"
_MARKS = "marks"


class Phase(StrEnum):
    """Where a program can be held."""

    PREPARING = "preparing"
    WARMING = "warming"
    SAVING = "saving"


class Fault(StrEnum):
    """What goes wrong in a program."""

    USER = "a wrong value"
    BUG = "a bug"
    EXIT = "an exit code"


class Patient(Counting):
    """Counts, at leisure until the file ``hurry`` is there."""

    def __init__(self, run: Run, held: Phase | None, fault: Fault | None, special: str) -> None:
        super().__init__(
            run.folder.path, rows=ROWS, batch_size=BATCH_SIZE, epochs=EPOCHS, checkpoint_steps=_CHECKPOINT_STEPS
        )
        self._hurry = run.folder.path / HURRY
        self._held = held
        assert run.member is not None
        self._fault = fault if run.member.name == special else None
        self._checkpoints = CheckpointFolder(run.folder.checkpoints, run.emit)
        self._marks = Marks(run.folder)

    def warm_up(self) -> None:
        if self._held is Phase.WARMING:
            hold(self._marks, Phase.WARMING)

    def begin(self) -> None:
        self.step = 0
        checkpoint = self._checkpoints.latest("")
        if checkpoint is not None:
            self.step, self.counts = checkpoint.step, checkpoint.arrays["counts"]

    def work(self, samples: int) -> None:
        if self._hurry.exists():
            self._checkpoint_steps = _HURRIED_CHECKPOINT_STEPS
        else:
            time.sleep(_SAMPLE_SECONDS * samples)
        if self._fault is not None and self.step > 20:
            fail(self._fault)

    def checkpoint(self) -> None:
        self._checkpoints.save(Checkpoint(self.step, {"counts": self.counts.copy()}, {"fingerprint": ""}))
        self._checkpoints.flush()
        self._marks.set("step", self.step)


class Marks:
    """Notes in the job's folder, by which a test sees where the job is."""

    def __init__(self, folder: JobFolder) -> None:
        self._path = folder.path / _MARKS

    def set(self, name: str, value: object = "") -> None:
        write_text(self._path / name, str(value))

    def get(self, name: str) -> str | None:
        """None: not set."""
        try:
            return (self._path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def having(self, prefix: str) -> frozenset[str]:
        """The different values of all whose names begin so."""
        return frozenset(path.read_text(encoding="utf-8") for path in self._path.glob(f"{prefix}*"))


def hurry(folder: JobFolder) -> None:
    """Let the job take no more time than it needs."""
    write_text(folder.path / HURRY, "")


def hold(marks: Marks, phase: Phase) -> None:
    """Stay in a phase until this process ends."""
    marks.set(phase)
    while True:
        time.sleep(3600)


def fail(fault: Fault) -> None:
    match fault:
        case Fault.USER:
            raise DataError("the 21st value is wrong")
        case Fault.BUG:
            raise RuntimeError("this program has a bug")
        case Fault.EXIT:
            sys.stderr.write("the program gives up\n")
            sys.stderr.flush()
            os._exit(3)


def program(
    held: Phase | None = None, fault: Fault | None = None, special: str = "worker-1", namespace: str | None = None
) -> str:
    """The program's text.

    Args:
        held: where it stays for ever.
        fault: what goes wrong after some steps, at the worker ``special``.
        namespace: the network namespace that this worker is in.
    """
    values = [None if value is None else str(value) for value in (held, fault)]
    entering = f"if os.environ[WORKER_VARIABLE] == {special!r}:\n    enter({namespace!r})\n" if namespace else ""
    return (
        "import os\n\n"
        "from sqlflow_elastic.elastic.member import WORKER_VARIABLE\n"
        "from tests.chaos.program import main\n"
        "from tests.chaos.network import enter\n\n"
        f"{entering}main(*{values!r}, {special!r})\n"
    )


def main(held: str | None, fault: str | None, special: str) -> None:
    """What the program does: train, and let every worker that lives to the end note the digest of its state."""
    phase = None if held is None else Phase(held)
    with running("counting") as run:
        marks = Marks(run.folder)
        for _ in run.tasks("preparing", 1):
            if phase is Phase.PREPARING:
                hold(marks, phase)
        replica = Patient(run, phase, None if fault is None else Fault(fault), special)
        assert run.member is not None
        run.member.train(replica)
        marks.set(f"final-{run.member.name}", digest(replica))
        for _ in run.tasks("saving", 1):
            if phase is Phase.SAVING:
                hold(marks, phase)
            write_json(run.folder.summary, {"counts": replica.counts.tolist(), "step": replica.step})
        run.completed("counted", run.folder.summary)


def digest(replica: Patient) -> str:
    return hashlib.sha256(b"".join(np.asarray(part).tobytes() for part in replica.state())).hexdigest()
