"""Which files together are the state of all servers after a step.

    tables/segments/…                     rows, see `segments`
    tables/step-<N>/<server>-<world>.json  a server's manifest: the segments that are its state, later ones before
                                           earlier ones; <world> stands for the names of all servers

A step is complete when all servers of one world have a manifest there. Where those of several worlds have, the ones
that were written last count: so servers that stand at a step that others wrote may write it anew. What no manifest
names is left over.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sqlflow_elastic.elastic.folder import write_text
from sqlflow_elastic.elastic.tables.segments import sync_folder

_STEP = re.compile(r"step-(\d+)")
#: A segment, or what is left of one that was not finished. It begins with its step.
_SEGMENT = re.compile(r"\.?(\d+)-.*\.rows(\.\d+)?")


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
    """Where a segment is; its name begins with the step, as digits, and a hyphen, and ends with ".rows"."""
    return folder / "segments" / name


def write_manifest(folder: Path, step: int, manifest: Manifest) -> None:
    """Durable when it returns; whole or not at all. Raises: OSError."""
    of_step = _of_step(folder, step)
    world = hashlib.blake2b(json.dumps(manifest.servers).encode(), digest_size=8).hexdigest()
    said = {
        "server": manifest.server,
        "servers": manifest.servers,
        "segments": manifest.segments,
        # Without a clock: whatever is there when a manifest is written came before it.
        "order": 1 + max((order for order, _ in _read(of_step)), default=0),
    }
    write_text(of_step / f"{manifest.server}-{world}.json", json.dumps(said))
    sync_folder(of_step)
    sync_folder(folder)


def read_manifests(folder: Path, step: int) -> list[Manifest]:
    """The manifests of a step, in the order of its servers; none if it is not complete. Raises: OSError."""
    return _complete(_read(_of_step(folder, step)))


def complete_steps(folder: Path) -> set[int]:
    """The steps whose state is there. Raises: OSError."""
    return {step for step in _steps(folder) if read_manifests(folder, step)}


def forget(folder: Path, keep: Collection[int]) -> None:
    """Remove the manifests of all other steps before the last one to keep, and the older segments that none names then.

    Several may do it at once while servers write. Nothing is removed if the last step to keep is not complete, and no
    segment while any manifest cannot be read.

    Args:
        folder: of the snapshots.
        keep: steps.

    Raises: OSError: the folder cannot be read.
    """
    last = max(keep, default=-1)
    if not read_manifests(folder, last):
        return
    for step in _steps(folder):
        if step < last and step not in keep:
            shutil.rmtree(_of_step(folder, step), ignore_errors=True)
    segments = _in(folder / "segments")
    try:
        manifests = {step: _read(_of_step(folder, step), strict=True) for step in _steps(folder)}
    except (OSError, ValueError):
        return
    # What servers will name is named there already, or is not older. If it is not there, others have forgotten more.
    if not _complete(manifests.get(last, [])):
        return
    named = {name for of_step in manifests.values() for _, each in of_step for name in each.segments}
    for path in segments:
        found = _SEGMENT.fullmatch(path.name)
        if found is not None and int(found[1]) < last and path.name not in named:
            with contextlib.suppress(OSError):
                path.unlink()


def _complete(manifests: Collection[tuple[int, Manifest]]) -> list[Manifest]:
    """Those of the world whose servers were all done last, in the order of its servers; none if there is no such."""
    worlds: dict[tuple[str, ...], dict[str, tuple[int, Manifest]]] = {}
    for order, manifest in manifests:
        worlds.setdefault(manifest.servers, {})[manifest.server] = (order, manifest)
    complete = {servers: found for servers, found in worlds.items() if set(found) == set(servers)}
    if not complete:
        return []
    servers = max(complete, key=lambda each: min(order for order, _ in complete[each].values()))
    return [complete[servers][name][1] for name in servers]


def _read(of_step: Path, *, strict: bool = False) -> list[tuple[int, Manifest]]:
    """The manifests in the folder of a step, each with its order.

    Raises:
        OSError: the folder cannot be read.
        ValueError: if ``strict``, one cannot be read; else it is as if it were not there.
    """
    manifests = []
    for path in _in(of_step):
        if path.suffix != ".json":  # it is not finished
            continue
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            manifest = Manifest(str(said["server"]), tuple(said["servers"]), tuple(said["segments"]))
            manifests.append((int(said["order"]), manifest))
        except FileNotFoundError:  # somebody forgets it
            continue
        except (OSError, KeyError, TypeError, ValueError) as error:
            if strict:
                raise ValueError(f"{path} cannot be read: {error!r}") from error
    return manifests


def _of_step(folder: Path, step: int) -> Path:
    return folder / f"step-{step:012d}"


def _steps(folder: Path) -> list[int]:
    return [int(found[1]) for path in _in(folder) if (found := _STEP.fullmatch(path.name))]


def _in(folder: Path) -> list[Path]:
    """What is in a folder; nothing if it is not there, or somebody forgets it. Raises: OSError: it cannot be read."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
