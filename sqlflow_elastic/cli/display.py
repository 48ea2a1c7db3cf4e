"""Events of a session as output: rows on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys

from sqlflow_elastic.cli.exits import Exit, OutputClosedError, exit_of
from sqlflow_elastic.cli.progress import LineProgress, NoProgress, ProgressView, TerminalProgress
from sqlflow_elastic.cli.rows import CsvPrinter, JsonPrinter, RowPrinter, TablePrinter
from sqlflow_elastic.config import Config
from sqlflow_elastic.errors import JobCancelled, ProgramError, SQLFlowError
from sqlflow_elastic.events import (
    Event,
    Failed,
    Message,
    Metrics,
    Progress,
    Result,
    Rows,
    StatementStarted,
    WorldChanged,
)
from sqlflow_elastic.session.job_text import world_text


class Display:
    """Shows events.

    Attributes:
        exit_code: what the command is to end with after the events shown so far.
    """

    def __init__(self, config: Config, quiet: bool) -> None:
        self.exit_code = Exit.DONE
        self._quiet = quiet
        self._color = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        self._printer = _printer(config)
        self._progress = _progress_view(quiet)
        self._in_rows = False
        self._statement = StatementStarted(0, 1, "")

    def show(self, event: Event) -> None:
        """Show one. Raises: OutputClosedError."""
        try:
            self._show(event)
        except BrokenPipeError:
            raise OutputClosedError from None

    def _show(self, event: Event) -> None:
        match event:
            case Progress():
                self._progress.show(event)
            case Metrics(split, _, _, values):
                if split != "train":  # the training loss is in the progress
                    self._progress.measured(values)
            case Rows(batch):
                if not self._in_rows:
                    self._progress.end()
                    self._in_rows = True
                self._printer.add(batch)
            case StatementStarted():
                self._statement = event
                self._progress.measured({})
            case Message(text, level):
                if level == "warning":
                    self._note(f"warning: {text}", "33")
                elif not self._quiet:
                    self._note(text)
            case WorldChanged(members=members, seconds=seconds):
                begins_alone = len(members) == 1 and seconds == 0.0
                if not self._quiet and not begins_alone:
                    self._note(world_text(event))
            case Result(text):
                self._end_rows()
                if not self._quiet:
                    self._note(f"{text} ({event.seconds:.2f} s)", "2")
                self._progress.end()
            case Failed(error):
                self._end_rows()
                self.fail(error)

    def fail(self, error: SQLFlowError) -> None:
        """Show an error, and take its exit code."""
        self._progress.end()
        self.exit_code = exit_of(error)
        if isinstance(error, JobCancelled):
            self._note(str(error))
            return
        place = ""
        if self._statement.count > 1 and not isinstance(error, ProgramError):
            place = f" in statement {self._statement.index + 1} of {self._statement.count}"
        self._note(f"error{place}: {error}", "31")

    def _end_rows(self) -> None:
        if self._in_rows:
            self._in_rows = False
            if left := self._printer.end():
                self._note(left)

    def _note(self, text: str, color: str = "") -> None:
        self._progress.end()
        first, *rest = text.split("\n")
        if color and self._color:
            first = f"\x1b[{color}m{first}\x1b[0m"
        sys.stderr.write("\n".join([first, *rest]) + "\n")
        sys.stderr.flush()


def _printer(config: Config) -> RowPrinter:
    if config.format == "json":
        return JsonPrinter(sys.stdout)
    if config.format == "csv":
        return CsvPrinter(sys.stdout)
    width = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else None
    return TablePrinter(sys.stdout, config.max_rows, width)


def _progress_view(quiet: bool) -> ProgressView:
    if quiet:
        return NoProgress()
    return TerminalProgress(sys.stderr) if sys.stderr.isatty() else LineProgress(sys.stderr)
