"""The dtypes that floats travel in."""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlflow_elastic.elastic.comm.base import WireDtype


def wire_dtype(wire: WireDtype | None, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """In what dtype elements of ``dtype`` travel; ``dtype`` itself if the wire's is none, or no narrower."""
    if wire is None or dtype.kind != "f":
        return dtype
    if wire is WireDtype.BFLOAT16:
        import ml_dtypes

        narrow = np.dtype(ml_dtypes.bfloat16)
    else:
        narrow = np.dtype(wire.value)
    return narrow if narrow.itemsize < dtype.itemsize else dtype
