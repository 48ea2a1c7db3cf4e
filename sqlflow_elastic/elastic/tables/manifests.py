"""Which files together are the state of all servers after a step.

    tables/segments/…             rows, see `segments`
    tables/step-<N>/<server>.json  a server's manifest: the segments that are its state, later ones before earlier ones

A step is complete when each of the servers that its manifests name has one. What no manifest names is left over.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sqlflow_elastic.elastic.folder import write_text


@dataclass(frozen=True)
class Manifest:
    """A server's state after a step.

    Attributes:
        server: its name.
        servers: the names of all servers at that step.
        segments: names of files; rows in later ones take the place of those in earlier ones.
    """

    server: str
    servers: tuple[str, ...]
    segments: tuple[str, ...]


def segment_path(folder: Path, name: str) -> Path:
    """Where a segment is."""
    return folder / "segments" / name


def write_manifest(folder: Path, step: int, manifest: Manifest) -> None:
    """Whole or not at all. Raises: OSError."""
    text = json.dumps({"servers": manifest.servers, "segments": manifest.segments})
    write_text(_of_step(folder, step) / f"{manifest.server}.json", text)


def read_manifests(folder: Path, step: int) -> list[Manifest]:
    """All manifests of a step; none if it is not complete."""
    manifests: dict[str, Manifest] = {}
    for path in _of_step(folder, step).glob("*.json"):
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            manifests[path.stem] = Manifest(path.stem, tuple(said["servers"]), tuple(said["segments"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    for manifest in manifests.values():
        if all(name in manifests for name in manifest.servers):
            return [manifests[name] for name in manifest.servers]
    return []


def complete_steps(folder: Path) -> set[int]:
    """The steps whose state is there."""
    return {step for step in _steps(folder) if read_manifests(folder, step)}


def forget(folder: Path, keep: Collection[int]) -> None:
    """Remove the manifests of all other steps before the last one to keep, and the segments that none names then."""
    last = max(keep, default=-1)
    for step in _steps(folder):
        if step < last and step not in keep:
            shutil.rmtree(_of_step(folder, step), ignore_errors=True)
    named = set()
    for step in _steps(folder):
        for path in _of_step(folder, step).glob("*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                named.update(json.loads(path.read_text(encoding="utf-8"))["segments"])
    for path in (folder / "segments").glob("*.rows"):
        if path.name not in named and int(path.name.split("-")[0]) <= last:
            path.unlink(missing_ok=True)


def _of_step(folder: Path, step: int) -> Path:
    return folder / f"step-{step:012d}"


def _steps(folder: Path) -> list[int]:
    return [int(path.name[5:]) for path in folder.glob("step-*") if re.fullmatch(r"step-\d+", path.name)]
