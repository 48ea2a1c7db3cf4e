"""How the command ends."""

from __future__ import annotations

from enum import IntEnum

from sqlflow_elastic.errors import JobCancelled, ProgramError, SQLFlowError


class Exit(IntEnum):
    """The exit codes."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    PROGRAM = 3
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


EXIT_CODES = """
Exit codes: 0 done; 1 a statement failed (the data, the database, the job); 2 wrong usage or configuration;
3 the program is wrong (it does not parse or compile); 130 stopped by Ctrl-C; 141 nobody reads the output any more.
"""


class OutputClosedError(Exception):
    """Nobody reads standard output any more."""


def exit_of(error: SQLFlowError) -> Exit:
    """The exit code of an error."""
    from sqlflow_elastic.config import ConfigError

    if isinstance(error, JobCancelled):
        return Exit.INTERRUPTED
    if isinstance(error, ProgramError):
        return Exit.PROGRAM
    return Exit.USAGE if isinstance(error, ConfigError) else Exit.FAILED
