"""The command line: options, commands, exit codes."""

from __future__ import annotations

import dataclasses
import os
import sys
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sqlflow_elastic.cli.exits import EXIT_CODES, Exit, OutputClosedError, exit_of
from sqlflow_elastic.errors import SQLFlowError

if TYPE_CHECKING:
    from sqlflow_elastic.config import Config
    from sqlflow_elastic.session import Session

app = typer.Typer(
    name="sqlflow-elastic",
    help="SQL in, trained model out.",
    epilog=EXIT_CODES,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


DataSourceOption = Annotated[
    str | None,
    typer.Option(
        "--datasource",
        "-d",
        metavar="URL",
        help="The database: duckdb:///file.db, sqlite:///file, mysql://user:password@host/db, postgresql://… "
        "[env: SQLFLOW_ELASTIC_DATASOURCE; default: a DuckDB file of yours]",
    ),
]
FormatOption = Annotated[Format | None, typer.Option("--format", help="How rows are printed [default: table]")]
MaxRowsOption = Annotated[
    int | None, typer.Option("--max-rows", min=0, help="Rows of a result that a table shows; 0: all [default: 100]")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no messages but warnings and errors")]
SQLOption = Annotated[str | None, typer.Option("-e", "--execute", metavar="SQL", help="The program")]
FileOption = Annotated[
    str | None, typer.Option("-f", "--file", metavar="FILE", help="The file with the program; - is standard input")
]


@dataclasses.dataclass(frozen=True)
class Options:
    """Options that may stand before the command and after it."""

    datasource: str | None = None
    format: Format | None = None
    max_rows: int | None = None
    quiet: bool = False

    def over(self, before: Options) -> Options:
        """These, and those said before the command where these say nothing."""
        return Options(
            self.datasource or before.datasource,
            self.format or before.format,
            before.max_rows if self.max_rows is None else self.max_rows,
            self.quiet or before.quiet,
        )

    def config(self) -> Config:
        """The settings of files and environment with these over them."""
        from sqlflow_elastic.config import load_config

        config = load_config()
        return dataclasses.replace(
            config,
            datasource=self.datasource or config.datasource,
            format=self.format or config.format,
            max_rows=config.max_rows if self.max_rows is None else self.max_rows,
        )


@app.callback()
def options(
    context: typer.Context,
    datasource: DataSourceOption = None,
    format: FormatOption = None,
    max_rows: MaxRowsOption = None,
    quiet: QuietOption = False,
) -> None:
    """SQL in, trained model out."""
    context.obj = Options(datasource, format, max_rows, quiet)


@app.command(epilog=EXIT_CODES)
def run(
    context: typer.Context,
    execute: SQLOption = None,
    file: FileOption = None,
    datasource: DataSourceOption = None,
    format: FormatOption = None,
    max_rows: MaxRowsOption = None,
    quiet: QuietOption = False,
) -> None:
    """Run a program: any number of statements, each ended by a semicolon.

    Rows go to standard output, progress and messages to standard error.
    """
    text = _program(execute, file)
    given = Options(datasource, format, max_rows, quiet).over(context.obj)
    from sqlflow_elastic.cli.display import Display
    from sqlflow_elastic.cli.interrupts import interrupts

    config = given.config()
    display = Display(config, given.quiet)
    with _session(config) as session, interrupts(session), closing(session.execute(text)) as events:
        for event in events:
            display.show(event)
    raise typer.Exit(display.exit_code)


@app.command()
def repl(
    context: typer.Context,
    datasource: DataSourceOption = None,
    format: FormatOption = None,
    max_rows: MaxRowsOption = None,
) -> None:
    """Type statements and see their results."""
    from sqlflow_elastic.cli.repl import run_repl

    config = Options(datasource, format, max_rows).over(context.obj).config()
    with _session(config) as session:
        run_repl(session, config)


@app.command("compile")
def compile_program(
    context: typer.Context,
    execute: SQLOption = None,
    file: FileOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to a file instead")
    ] = None,
    datasource: DataSourceOption = None,
) -> None:
    """Print the Python program that a TO TRAIN, TO PREDICT or TO EVALUATE statement becomes."""
    text = _program(execute, file)
    with _session(Options(datasource).over(context.obj).config()) as session:
        programs = session.compile(text)
    if len(programs) != 1:
        raise typer.BadParameter(f"one TO TRAIN, TO PREDICT or TO EVALUATE statement is needed, not {len(programs)}")
    if output is None:
        sys.stdout.write(programs[0])
    else:
        try:
            output.write_text(programs[0], encoding="utf-8")
        except OSError as error:
            raise typer.BadParameter(f"{output} cannot be written: {error.strerror}") from error


@app.command()
def export(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name, as INTO named it")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to; made if missing")],
    datasource: DataSourceOption = None,
) -> None:
    """Write a trained model as a Keras file and a TensorFlow SavedModel, both taking raw columns."""
    from sqlflow_elastic.cli.interrupts import interrupts

    with _session(Options(datasource).over(context.obj).config()) as session, interrupts(session):
        session.export(model, directory)
    typer.echo(f"Exported {model} to {directory}", err=True)


@app.command()
def version() -> None:
    """Print the versions of this package and of what it stands on."""
    from importlib.metadata import PackageNotFoundError, version

    typer.echo(f"sqlflow-elastic {version('sqlflow-elastic')}")
    for package in ("tensorflow", "tensorflow-cpu", "keras"):
        try:
            typer.echo(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    typer.echo(f"python {sys.version.split()[0]}")


def run_app() -> None:
    """Run the command; what went wrong becomes a message and an exit code, a bug stays a traceback."""
    sys.path.append(str(Path.cwd()))  # where users' own models are, as for python -m
    try:
        app()
    except SQLFlowError as error:
        _end(f"error: {error}", exit_of(error))
    except KeyboardInterrupt:
        _end("stopped", Exit.INTERRUPTED)
    except OutputClosedError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python's last flush does not fail
        sys.exit(Exit.OUTPUT_CLOSED)


def _end(message: str, exit_code: Exit) -> None:
    sys.stderr.write(message + "\n")
    sys.exit(exit_code)


def _program(execute: str | None, file: str | None) -> str:
    """The text of -e or -f."""
    if (execute is None) == (file is None):
        raise typer.BadParameter("give the program with -e SQL or with -f FILE")
    if execute is not None:
        return execute
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(str(file)).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{file} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def _session(config: Config) -> Session:
    from sqlflow_elastic.session import Session

    return Session.open(config)
