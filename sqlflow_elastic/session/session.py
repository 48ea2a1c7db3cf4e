"""`connect` and `Session`: one data source, one program after the other."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from sqlflow_elastic import language
from sqlflow_elastic.cluster import Cluster, LocalCluster
from sqlflow_elastic.config import Config, load_config
from sqlflow_elastic.datasource import DataSource, Mark, open_source
from sqlflow_elastic.errors import CompileError, ParseError, SQLFlowError
from sqlflow_elastic.events import Event, Failed, Result, Rows, StatementStarted
from sqlflow_elastic.jobs import Job
from sqlflow_elastic.jobs.records import list_jobs
from sqlflow_elastic.jobs.request import JobKind, JobRequest
from sqlflow_elastic.language import ast
from sqlflow_elastic.models.storage import Storage
from sqlflow_elastic.models.store import load_model
from sqlflow_elastic.session import catalog, jobs
from sqlflow_elastic.session.background import Background
from sqlflow_elastic.session.beside import beside
from sqlflow_elastic.session.context import Context, Running
from sqlflow_elastic.session.job import statement_job
from sqlflow_elastic.session.plain import run_plain

_ASK_SECONDS = 2.0

_LATER = {
    ast.Explain: "TO EXPLAIN",
    ast.Run: "TO RUN",
    ast.Optimize: "TO MAXIMIZE or TO MINIMIZE",
}


def connect(url: str | None = None, *, work_dir: str | Path | None = None) -> Session:
    """Open a session.

    Args:
        url: the data source; by default what the environment variable SQLFLOW_ELASTIC_DATASOURCE or a configuration
            file names, else a DuckDB file of the user's own (see `sqlflow_elastic.config`). ``duckdb://`` is a
            database in memory: its tables and models go with the session.
        work_dir: folder of the jobs' folders; by default from a configuration file.

    Raises: DataSourceError: it cannot be reached. ConfigError: a configuration file is wrong.
    """
    config = load_config()
    if url is not None:
        config = dataclasses.replace(config, datasource=url)
    if work_dir is not None:
        config = dataclasses.replace(config, work_dir=str(work_dir))
    return Session.open(config)


class Session:
    """Runs programs on one data source. Used by one thread at a time, but for `cancel`.

    Args:
        source: the database; closed with the session.
        cluster: where jobs run; closed with the session.
        jobs_folder: where the jobs' folders are made.
        state_store: URL of the store of their states, see `Config`; None for those in their folders.
        storage: folder or URL of what is too large for the database, see `Config`; None for one beside the jobs'
            folders.
    """

    def __init__(
        self,
        source: DataSource,
        cluster: Cluster,
        jobs_folder: Path,
        state_store: str | None = None,
        storage: str | Path | None = None,
    ) -> None:
        self._cancelled = threading.Event()
        database = Background(source.cancel, self._cancelled)
        kept = Storage(storage or jobs_folder.parent / "models")
        self._context = Context(source, database, cluster, jobs_folder, kept, self._cancelled, state_store)

    @classmethod
    def open(cls, config: Config) -> Self:
        """A session on the settings' data source and this machine. Raises: DataSourceError: it cannot be reached."""
        source = open_source(config.datasource_or_default())
        cluster = LocalCluster(slots=config.slots)
        return cls(source, cluster, config.jobs_folder, config.state_store, config.storage_or_default())

    @property
    def source(self) -> DataSource:
        """The database. Not to be used while a program runs."""
        return self._context.source

    def warm_up(self) -> None:
        """Begin importing TensorFlow in the background, for a session in which somebody is about to type."""
        self._context.cluster.warm_up()

    def execute(self, sql: str) -> Generator[Event, None, None]:
        """Run a program, statement by statement, yielding what happens.

        Each statement begins with StatementStarted and ends with Result, or with Failed, after which nothing more runs.
        A program that cannot be parsed is one Failed and nothing runs. A user's mistakes come as Failed, never raised.

        Closing the iterator early, or an exception such as KeyboardInterrupt in it, stops the running statement: when
        it is left, the query has been ended, the job's process is gone and nothing is half written.
        """
        self._cancelled.clear()
        try:
            statements = language.parse(sql, self.source.dialect)
        except ParseError as error:
            yield Failed(error)
            return
        if any(isinstance(statement, ast.Train | ast.Predict | ast.Evaluate) for statement in statements):
            self.warm_up()
        for index, statement in enumerate(statements):
            begun = time.perf_counter()
            yield StatementStarted(index, len(statements), sql[statement.span.start : statement.span.end])
            try:
                outcome = yield from self._run(statement, sql)
            except SQLFlowError as error:
                yield Failed(error)
                return
            yield Result(outcome.text, outcome.values, time.perf_counter() - begun)

    def cancel(self) -> None:
        """Stop the program that runs now, from any thread; it ends with Failed(JobCancelled)."""
        self._cancelled.set()

    def sql(self, program: str) -> pa.Table:
        """Run a program; the rows of its last statement that had any, or a table without columns.

        Raises: SQLFlowError: a statement failed.
        """
        batches: list[pa.RecordBatch] = []
        for event in self.execute(program):
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, StatementStarted):
                fresh = True
            elif isinstance(event, Rows):
                batches = [event.batch] if fresh else [*batches, event.batch]
                fresh = False
        return pa.Table.from_batches(batches) if batches else pa.table({})

    def compile(self, sql: str) -> list[str]:
        """The Python programs that a program's TO TRAIN, TO PREDICT and TO EVALUATE statements become; nothing runs.

        Raises: ParseError, CompileError. DataSourceError: the database refused to describe a SELECT.
        """
        from sqlflow_elastic.compiler import compile_statement

        return [
            compile_statement(statement, sql, self.source).program
            for statement in language.parse(sql, self.source.dialect)
            if isinstance(statement, ast.Train | ast.Predict | ast.Evaluate)
        ]

    def export(self, model: str, directory: str | Path) -> None:
        """Write a trained model as a Keras file and a TensorFlow SavedModel that take raw columns.

        Args:
            model: its name, parts joined by dots.
            directory: made if missing; an earlier export there is replaced, or left if this one fails.

        Raises: ModelStoreError: there is no such model. StorageError: the directory cannot be written to. JobError:
        the export failed.
        """
        from sqlflow_elastic.compiler import compile_export

        self._cancelled.clear()
        self.warm_up()
        table = tuple(model.split("."))
        directory = Path(directory).absolute()
        context = self._context
        request = JobRequest(JobKind.PROGRAM, model, "")
        with statement_job(context, request) as folder:
            ask = context.database.ask
            ask(lambda: load_model(self.source, table, folder.model, context.storage), None)
            with beside(directory, ("model.keras", "saved_model", "model.json")) as aside:
                program = ask(lambda: compile_export(self.source, table, str(folder.model), str(aside)), None)
                job = Job(
                    folder,
                    program,
                    context.cluster,
                    aside / "model.json",
                    request,
                    state_store=context.state_store,
                    cancelled=self._cancelled,
                )
                for _ in job.events():
                    pass

    def tables(self) -> list[str]:
        """Names of the tables and views, as `DataSource.tables` gives them; for completion, so of no more than seconds.

        This and the next two may be called from any thread. Raises: DataSourceError, TimeoutError.
        """
        return self._context.database.ask(self.source.tables, _ASK_SECONDS)

    def columns(self, table: tuple[str, ...]) -> list[str]:
        """Names of the columns of a table given by its name parts; none if there is no such table."""
        schema = self._context.database.ask(lambda: self.source.columns(table), _ASK_SECONDS)
        return [] if schema is None else schema.names

    def models(self) -> list[str]:
        """Names of the trained models."""
        return [
            ".".join(table)
            for table in self._context.database.ask(lambda: self.source.marked(Mark.MODEL), _ASK_SECONDS)
        ]

    def jobs(self) -> list[str]:
        """Ids of the jobs there are, newest first; this one may be called from any thread too."""
        return [job for job, _ in list_jobs(self._context.jobs_folder, self._context.state_store)]

    def close(self) -> None:
        """End its processes and give back the connection. Closing twice is fine."""
        self._context.cluster.close()
        self._context.database.close()
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, statement: ast.Statement, sql: str) -> Running:
        context = self._context
        match statement:
            case ast.PlainSQL():
                return run_plain(context, statement)
            case ast.Train() | ast.Predict() | ast.Evaluate() | ast.ExplainPlan():
                from sqlflow_elastic.session.extended import run_extended  # plain SQL does without the compiler

                return run_extended(context, statement, sql)
            case ast.ShowTrain():
                return catalog.show_train(context, statement)
            case ast.ShowModels():
                return catalog.show_models(context)
            case ast.DescribeModel():
                return catalog.describe_model(context, statement)
            case ast.DropModel():
                return catalog.drop(context, statement)
            case ast.ShowJobs():
                return jobs.show_jobs(context)
            case ast.ShowJob():
                return jobs.show_job(context, statement, sql)
            case ast.KillJob():
                return jobs.kill_job(context, statement, sql)
            case _:
                raise CompileError(f"{_LATER[type(statement)]} is not available yet", sql, statement.span)
