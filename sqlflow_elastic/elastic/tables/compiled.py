"""How functions over rows are compiled."""

from __future__ import annotations

from typing import Any

import numba


def compiled(function: Any) -> Any:
    """Compile a function when it is first called, and keep the code for later processes where there is a place for it.

    That is beside the module, or else in the user's cache folder. Where nothing can be written, each process compiles.
    Divisions by zero give what they give in TensorFlow: infinity, or no number.
    """
    try:
        return numba.njit(function, cache=True, nogil=True, error_model="numpy")
    except RuntimeError:  # no place
        return numba.njit(function, nogil=True, error_model="numpy")
