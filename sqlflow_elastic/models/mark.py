"""What a database table written by this package is.

It stands at the bottom of the package because both the data sources, which keep it, and the model store, which asks for
it, need it.
"""

from __future__ import annotations

import enum


class Mark(enum.Enum):
    """What a table written by this package is. Kept as the table's comment, so that it goes when the table goes."""

    MODEL = "sqlflow-elastic model"
    RESULT = "sqlflow-elastic result"
