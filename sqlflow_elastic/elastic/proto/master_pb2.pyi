from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FromWorker(_message.Message):
    __slots__ = ("hello", "ready", "prepared", "running", "broken", "leaving", "left", "finished", "progress", "task_wanted", "task_done", "completed", "failed", "told", "spans", "needs", "server_state")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    TASK_WANTED_FIELD_NUMBER: _ClassVar[int]
    TASK_DONE_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    SERVER_STATE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    ready: Ready
    prepared: Prepared
    running: Running
    broken: Broken
    leaving: Leaving
    left: Left
    finished: Finished
    progress: Progress
    task_wanted: TaskWanted
    task_done: TaskDone
    completed: Completed
    failed: Failed
    told: Told
    spans: Spans
    needs: Needs
    server_state: ServerState
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., ready: _Optional[_Union[Ready, _Mapping]] = ..., prepared: _Optional[_Union[Prepared, _Mapping]] = ..., running: _Optional[_Union[Running, _Mapping]] = ..., broken: _Optional[_Union[Broken, _Mapping]] = ..., leaving: _Optional[_Union[Leaving, _Mapping]] = ..., left: _Optional[_Union[Left, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., task_wanted: _Optional[_Union[TaskWanted, _Mapping]] = ..., task_done: _Optional[_Union[TaskDone, _Mapping]] = ..., completed: _Optional[_Union[Completed, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., told: _Optional[_Union[Told, _Mapping]] = ..., spans: _Optional[_Union[Spans, _Mapping]] = ..., needs: _Optional[_Union[Needs, _Mapping]] = ..., server_state: _Optional[_Union[ServerState, _Mapping]] = ...) -> None: ...

class FromMaster(_message.Message):
    __slots__ = ("welcome", "prepare", "commit", "release", "task", "no_task", "task_accepted", "end", "servers")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    NO_TASK_FIELD_NUMBER: _ClassVar[int]
    TASK_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    prepare: Prepare
    commit: Commit
    release: Release
    task: Task
    no_task: NoTask
    task_accepted: TaskAccepted
    end: End
    servers: Servers
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., prepare: _Optional[_Union[Prepare, _Mapping]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., task: _Optional[_Union[Task, _Mapping]] = ..., no_task: _Optional[_Union[NoTask, _Mapping]] = ..., task_accepted: _Optional[_Union[TaskAccepted, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ..., servers: _Optional[_Union[Servers, _Mapping]] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("queue", "index", "done")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    index: int
    done: bool
    def __init__(self, queue: _Optional[str] = ..., index: _Optional[int] = ..., done: _Optional[bool] = ...) -> None: ...

class Wish(_message.Message):
    __slots__ = ("queue", "total")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    queue: str
    total: int
    def __init__(self, queue: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("name", "address", "standing", "version", "step", "leaving", "held", "wish", "needs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    WISH_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    standing: str
    version: int
    step: int
    leaving: bool
    held: _containers.RepeatedCompositeFieldContainer[Held]
    wish: Wish
    needs: Needs
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., standing: _Optional[str] = ..., version: _Optional[int] = ..., step: _Optional[int] = ..., leaving: _Optional[bool] = ..., held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., wish: _Optional[_Union[Wish, _Mapping]] = ..., needs: _Optional[_Union[Needs, _Mapping]] = ...) -> None: ...

class Needs(_message.Message):
    __slots__ = ("servers", "memory", "plan", "synchronous", "placement", "world")
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    SYNCHRONOUS_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    WORLD_FIELD_NUMBER: _ClassVar[int]
    servers: int
    memory: int
    plan: str
    synchronous: bool
    placement: str
    world: int
    def __init__(self, servers: _Optional[int] = ..., memory: _Optional[int] = ..., plan: _Optional[str] = ..., synchronous: _Optional[bool] = ..., placement: _Optional[str] = ..., world: _Optional[int] = ...) -> None: ...

class ServerState(_message.Message):
    __slots__ = ("memory", "rows", "step")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    memory: int
    rows: int
    step: int
    def __init__(self, memory: _Optional[int] = ..., rows: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ("step",)
    STEP_FIELD_NUMBER: _ClassVar[int]
    step: int
    def __init__(self, step: _Optional[int] = ...) -> None: ...

class Prepared(_message.Message):
    __slots__ = ("version", "step")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    version: int
    step: int
    def __init__(self, version: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class Running(_message.Message):
    __slots__ = ("version", "step", "seconds")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    version: int
    step: int
    seconds: float
    def __init__(self, version: _Optional[int] = ..., step: _Optional[int] = ..., seconds: _Optional[float] = ...) -> None: ...

class Broken(_message.Message):
    __slots__ = ("version", "step", "suspect", "reason")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SUSPECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    version: int
    step: int
    suspect: int
    reason: str
    def __init__(self, version: _Optional[int] = ..., step: _Optional[int] = ..., suspect: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Leaving(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Left(_message.Message):
    __slots__ = ("step",)
    STEP_FIELD_NUMBER: _ClassVar[int]
    step: int
    def __init__(self, step: _Optional[int] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("step",)
    STEP_FIELD_NUMBER: _ClassVar[int]
    step: int
    def __init__(self, step: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("version", "step", "samples_per_second", "sample_seconds", "measured", "settled", "eta")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    version: int
    step: int
    samples_per_second: float
    sample_seconds: float
    measured: float
    settled: bool
    eta: float
    def __init__(self, version: _Optional[int] = ..., step: _Optional[int] = ..., samples_per_second: _Optional[float] = ..., sample_seconds: _Optional[float] = ..., measured: _Optional[float] = ..., settled: _Optional[bool] = ..., eta: _Optional[float] = ...) -> None: ...

class TaskWanted(_message.Message):
    __slots__ = ("queue", "total")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    queue: str
    total: int
    def __init__(self, queue: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class TaskDone(_message.Message):
    __slots__ = ("queue", "index")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    queue: str
    index: int
    def __init__(self, queue: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class Completed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Failed(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: str
    def __init__(self, event: _Optional[str] = ...) -> None: ...

class Told(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: str
    def __init__(self, event: _Optional[str] = ...) -> None: ...

class Spans(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("heartbeat",)
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    heartbeat: float
    def __init__(self, heartbeat: _Optional[float] = ...) -> None: ...

class Prepare(_message.Message):
    __slots__ = ("version", "rank", "size", "next", "planned", "shares", "seconds", "servers", "rewind", "plan")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    REWIND_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    version: int
    rank: int
    size: int
    next: str
    planned: bool
    shares: _containers.RepeatedScalarFieldContainer[float]
    seconds: float
    servers: _containers.RepeatedCompositeFieldContainer[Server]
    rewind: bool
    plan: str
    def __init__(self, version: _Optional[int] = ..., rank: _Optional[int] = ..., size: _Optional[int] = ..., next: _Optional[str] = ..., planned: _Optional[bool] = ..., shares: _Optional[_Iterable[float]] = ..., seconds: _Optional[float] = ..., servers: _Optional[_Iterable[_Union[Server, _Mapping]]] = ..., rewind: _Optional[bool] = ..., plan: _Optional[str] = ...) -> None: ...

class Server(_message.Message):
    __slots__ = ("name", "address")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class Servers(_message.Message):
    __slots__ = ("version", "servers")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    version: int
    servers: _containers.RepeatedCompositeFieldContainer[Server]
    def __init__(self, version: _Optional[int] = ..., servers: _Optional[_Iterable[_Union[Server, _Mapping]]] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("version", "root", "receivers", "step", "sources")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    RECEIVERS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    version: int
    root: int
    receivers: _containers.RepeatedScalarFieldContainer[int]
    step: int
    sources: _containers.RepeatedCompositeFieldContainer[Server]
    def __init__(self, version: _Optional[int] = ..., root: _Optional[int] = ..., receivers: _Optional[_Iterable[int]] = ..., step: _Optional[int] = ..., sources: _Optional[_Iterable[_Union[Server, _Mapping]]] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("reason", "checkpoint")
    REASON_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    reason: str
    checkpoint: bool
    def __init__(self, reason: _Optional[str] = ..., checkpoint: _Optional[bool] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("queue", "index")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    queue: str
    index: int
    def __init__(self, queue: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class NoTask(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class TaskAccepted(_message.Message):
    __slots__ = ("queue", "index")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    queue: str
    index: int
    def __init__(self, queue: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("checkpoint",)
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    checkpoint: bool
    def __init__(self, checkpoint: _Optional[bool] = ...) -> None: ...
