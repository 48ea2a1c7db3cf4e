"""Where the encoded values of each column lie in the encoder's arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlflow_elastic.models.features.columns import Column


@dataclass(frozen=True)
class NumberPlaces:
    """Of a number column: its places in ``numbers``, the 0/1 companion for "missing" among them if it has one."""

    own: tuple[int, ...]
    missing: int | None = None

    @property
    def all(self) -> tuple[int, ...]:
        """All its places, the companion last."""
        return self.own if self.missing is None else (*self.own, self.missing)


@dataclass(frozen=True)
class CategoryPlaces:
    """Of a category: its places in ``ids`` and, if it has weights, in ``weights``; ids are in [0, rows), -1 is none."""

    ids: tuple[int, ...]
    rows: int
    weights: tuple[int, ...] | None = None


@dataclass
class Layout:
    """Places by column, in the columns' plain form (see `resolve`), and the arrays' widths."""

    numbers: dict[Column, NumberPlaces] = field(default_factory=dict)
    categories: dict[Column, CategoryPlaces] = field(default_factory=dict)
    numbers_width: int = 0
    ids_width: int = 0
    weights_width: int = 0

    @property
    def arrays(self) -> dict[str, tuple[int, str]]:
        """Width and dtype of each encoded array that there is; every array is [rows, width]."""
        widths = {
            "numbers": (self.numbers_width, "float32"),
            "ids": (self.ids_width, "int32"),
            "weights": (self.weights_width, "float32"),
        }
        return {name: (width, dtype) for name, (width, dtype) in widths.items() if width}
