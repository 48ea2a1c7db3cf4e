"""Figures of benchmarks as SVG, without a plotting library: what is used over time, stacked, a panel for each way."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

_WIDTH, _HEIGHT = 760, 200
_LEFT, _TOP, _RIGHT, _BOTTOM = 56, 34, 16, 44
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2")


@dataclass(frozen=True)
class Steps:
    """A figure that holds until it changes: points of time in seconds, rising, and value from then on. 0 before."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """Steps stacked on one another, the first at the bottom, up to a time in seconds."""

    title: str
    steps: Sequence[Steps]
    end: float


def write_panels(path: Path, panels: Sequence[Panel], x_label: str, y_label: str, limit: float) -> None:
    """Write the panels with the same axes; a dashed line is at ``limit``, which is at least what a stack reaches."""
    seconds = max(panel.end for panel in panels)
    height = _HEIGHT * len(panels)
    with path.open("w", encoding="utf-8") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12" fill="#333">\n'
            f'<rect width="{_WIDTH}" height="{height}" fill="white"/>\n'
        )
        for index, panel in enumerate(panels):
            file.write(f'<g transform="translate(0 {index * _HEIGHT})">\n')
            file.writelines(f"{line}\n" for line in _panel(panel, _Scale(seconds, limit), x_label, y_label))
            file.write("</g>\n")
        file.write("</svg>\n")


@dataclass(frozen=True)
class _Scale:
    seconds: float
    limit: float

    def x(self, seconds: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * seconds / self.seconds, 2)

    def y(self, value: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / (1.05 * self.limit), 2)


def _panel(panel: Panel, scale: _Scale, x_label: str, y_label: str) -> Iterator[str]:
    bottom, right = scale.y(0), scale.x(scale.seconds)
    yield f'<text x="{_LEFT}" y="20" font-weight="bold">{escape(panel.title)}</text>'
    place = right
    for index, steps in reversed(list(enumerate(panel.steps))):
        place -= 30 + 7 * len(steps.name)
        yield f'<rect x="{place}" y="10" width="12" height="12" fill="{_COLOURS[index % len(_COLOURS)]}"/>'
        yield f'<text x="{place + 17}" y="20">{escape(steps.name)}</text>'
    yield from _areas(panel, scale)
    for value in _ticks(scale.limit, 4):
        yield f'<text x="{_LEFT - 8}" y="{scale.y(value) + 4}" text-anchor="end">{value:g}</text>'
        yield f'<path d="M{_LEFT - 4} {scale.y(value)}H{_LEFT}" stroke="#333"/>'
    for value in _ticks(scale.seconds, 10):
        yield f'<text x="{scale.x(value)}" y="{bottom + 18}" text-anchor="middle">{value:g}</text>'
        yield f'<path d="M{scale.x(value)} {bottom}v4" stroke="#333"/>'
    yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#333"/>'
    yield f'<path d="M{_LEFT} {scale.y(scale.limit)}H{right}" stroke="#333" stroke-dasharray="4 4"/>'
    yield f'<text x="{(_LEFT + right) / 2}" y="{bottom + 36}" text-anchor="middle">{escape(x_label)}</text>'
    middle = (_TOP + bottom) / 2
    yield f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'


def _areas(panel: Panel, scale: _Scale) -> Iterator[str]:
    changes = {at for steps in panel.steps for at, _ in steps.points if 0 < at < panel.end}
    times = [0.0, *sorted(changes), panel.end]
    floor = [0.0] * (len(times) - 1)
    for index, steps in enumerate(panel.steps):
        top = [low + _value(steps, at) for low, at in zip(floor, times, strict=False)]
        edges = list(zip(times, times[1:], top, floor, strict=False))
        outline = [f"{scale.x(at)} {scale.y(high)}" for begin, end, high, _ in edges for at in (begin, end)]
        outline += [f"{scale.x(at)} {scale.y(low)}" for begin, end, _, low in reversed(edges) for at in (end, begin)]
        yield f'<path d="M{"L".join(outline)}Z" fill="{_COLOURS[index % len(_COLOURS)]}"/>'
        floor = top


def _value(steps: Steps, at: float) -> float:
    return next((value for begin, value in reversed(steps.points) if begin <= at), 0.0)


def _ticks(most: float, count: int) -> list[float]:
    """About so many round numbers from 0 to that."""
    power = 10.0 ** math.floor(math.log10(most / count))
    step = next(power * round_ for round_ in (1, 2, 5, 10) if power * round_ >= most / count)
    return [round(step * index, 10) for index in range(math.floor(most / step * (1 + 1e-9)) + 1)]
