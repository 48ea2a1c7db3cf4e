"""The prompt: statements in, results out, until Ctrl-D."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer
from pygments.token import Keyword, Name

from sqlflow_elastic import language
from sqlflow_elastic.cli.completion import ProgramCompleter, attributes_of
from sqlflow_elastic.cli.display import Display
from sqlflow_elastic.cli.exits import Exit
from sqlflow_elastic.cli.interrupts import interrupts
from sqlflow_elastic.cli.rows import TablePrinter, text_of
from sqlflow_elastic.config import Config
from sqlflow_elastic.errors import why
from sqlflow_elastic.models.zoo.declarations import MODELS, find
from sqlflow_elastic.session import Session

_HELP = """\
A statement ends with ; and may take several lines. Any SQL of the database, and:

  SELECT … TO TRAIN model WITH attribute = value, … LABEL field INTO name;
  SELECT … TO EVALUATE name LABEL field INTO table;
  SELECT … TO PREDICT table.column USING name;
  EXPLAIN SELECT … TO TRAIN …;
  SHOW MODELS;  SHOW TRAIN name;  DESCRIBE MODEL name;  DROP MODEL name;
  SHOW JOBS;  SHOW JOB id;  KILL JOB id;

  \\?         this help
  \\? model   the attributes of a model: {models}
  \\q         leave, as Ctrl-D
  Tab        complete     Ctrl-R  search what was typed     Ctrl-C  stop the statement, twice: leave at once
"""


def run_repl(session: Session, config: Config) -> None:
    """Read and run statements until the user leaves."""
    if not sys.stdin.isatty():
        sys.stderr.write("error: the prompt needs a terminal; run a program with: sqlflow-elastic run -f -\n")
        raise SystemExit(Exit.USAGE)
    session.warm_up()
    completer = ProgramCompleter(session)
    prompt = _prompt(session, config, completer)
    sys.stderr.write(f"{session.source.url}  \\? for help, \\q or Ctrl-D to leave\n")
    while True:
        try:
            text = prompt.prompt("sqlflow> ").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text in {"\\q", "quit", "exit"}:
            return
        if text.startswith("\\"):
            _command(text, config)
        elif text:
            _run(session, config, text)
            completer.forget()


def _run(session: Session, config: Config, text: str) -> None:
    display = Display(config, quiet=False)
    with interrupts(session), closing(session.execute(text)) as events:
        for event in events:
            display.show(event)


def _command(text: str, config: Config) -> None:
    command, _, name = text.partition(" ")
    model = find(name.strip())
    if command in {"\\?", "\\h", "\\help"} and model is not None:
        printer = TablePrinter(sys.stdout, 0, shutil.get_terminal_size().columns)
        rows = [
            {
                "attribute": attribute.name,
                "value": attribute.kind.text,
                "default": "required" if attribute.required else _default(attribute.default),
                "": attribute.help,
            }
            for attribute in attributes_of(model)
        ]
        printer.add(pa.RecordBatch.from_pylist(rows))
        printer.end()
    elif command in {"\\?", "\\h", "\\help"}:
        sys.stdout.write(_HELP.format(models=", ".join(model.name for model in MODELS)))
    else:
        sys.stderr.write(f"error: {command} is no command; \\? for help\n")


def _default(value: object) -> str:
    return "" if value is None else text_of(value)


def _prompt(session: Session, config: Config, completer: ProgramCompleter) -> PromptSession[str]:
    return PromptSession(
        history=_history(config),
        multiline=True,
        key_bindings=_keys(session),
        completer=ThreadedCompleter(completer),
        complete_while_typing=False,
        lexer=PygmentsLexer(ProgramLexer),
        prompt_continuation=lambda width, line, wrapped: "... ".rjust(width),
    )


def _history(config: Config) -> History:
    """What was typed before; if the file cannot be written, only what is typed now."""
    file = config.history_file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError as error:
        sys.stderr.write(f"warning: what you type is not kept in {file}: {why(error)}\n")
        return InMemoryHistory()
    return FileHistory(str(file))


def _keys(session: Session) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text.strip()
        at_once = not text or text.startswith("\\") or text in {"quit", "exit"}
        at_end = buffer.document.is_cursor_at_the_end
        if at_once or (at_end and language.is_complete(text, session.source.dialect)):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


class ProgramLexer(SqlLexer):  # type: ignore[misc]  # Pygments has no types
    """SQL with the words of the language."""

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]:
        """Pygments' tokens; a name that is a word of the language counts as a keyword."""
        for index, token, value in super().get_tokens_unprocessed(text):
            yield index, Keyword if token is Name and value.upper() in language.KEYWORDS else token, value
