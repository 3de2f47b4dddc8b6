from taskmaster.v1 import inspection_pb2 as _inspection_pb2
from taskmaster.v1 import topics_pb2 as _topics_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BulkAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BULK_ACTION_UNSPECIFIED: _ClassVar[BulkAction]
    BULK_ACTION_RETRY: _ClassVar[BulkAction]
    BULK_ACTION_MOVE: _ClassVar[BulkAction]
    BULK_ACTION_DELETE: _ClassVar[BulkAction]
    BULK_ACTION_CANCEL: _ClassVar[BulkAction]
    BULK_ACTION_RESCHEDULE: _ClassVar[BulkAction]
    BULK_ACTION_PROMOTE: _ClassVar[BulkAction]

class BulkTasks(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BULK_TASKS_UNSPECIFIED: _ClassVar[BulkTasks]
    BULK_TASKS_AVAILABLE: _ClassVar[BulkTasks]
    BULK_TASKS_DELAYED: _ClassVar[BulkTasks]
    BULK_TASKS_LEASED: _ClassVar[BulkTasks]
    BULK_TASKS_DEAD_LETTERS: _ClassVar[BulkTasks]

class BulkRunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BULK_RUN_STATE_UNSPECIFIED: _ClassVar[BulkRunState]
    BULK_RUN_STATE_RUNNING: _ClassVar[BulkRunState]
    BULK_RUN_STATE_DONE: _ClassVar[BulkRunState]
    BULK_RUN_STATE_CANCELLED: _ClassVar[BulkRunState]
    BULK_RUN_STATE_FAILED: _ClassVar[BulkRunState]
BULK_ACTION_UNSPECIFIED: BulkAction
BULK_ACTION_RETRY: BulkAction
BULK_ACTION_MOVE: BulkAction
BULK_ACTION_DELETE: BulkAction
BULK_ACTION_CANCEL: BulkAction
BULK_ACTION_RESCHEDULE: BulkAction
BULK_ACTION_PROMOTE: BulkAction
BULK_TASKS_UNSPECIFIED: BulkTasks
BULK_TASKS_AVAILABLE: BulkTasks
BULK_TASKS_DELAYED: BulkTasks
BULK_TASKS_LEASED: BulkTasks
BULK_TASKS_DEAD_LETTERS: BulkTasks
BULK_RUN_STATE_UNSPECIFIED: BulkRunState
BULK_RUN_STATE_RUNNING: BulkRunState
BULK_RUN_STATE_DONE: BulkRunState
BULK_RUN_STATE_CANCELLED: BulkRunState
BULK_RUN_STATE_FAILED: BulkRunState

class BulkFilter(_message.Message):
    __slots__ = ("tasks", "min_age_ms", "max_age_ms", "error_contains", "headers", "key_prefix", "kind")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_CONTAINS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    KEY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    tasks: BulkTasks
    min_age_ms: int
    max_age_ms: int
    error_contains: str
    headers: _topics_pb2.HeaderFilter
    key_prefix: str
    kind: str
    def __init__(self, tasks: _Optional[_Union[BulkTasks, str]] = ..., min_age_ms: _Optional[int] = ..., max_age_ms: _Optional[int] = ..., error_contains: _Optional[str] = ..., headers: _Optional[_Union[_topics_pb2.HeaderFilter, _Mapping]] = ..., key_prefix: _Optional[str] = ..., kind: _Optional[str] = ...) -> None: ...

class BulkSpec(_message.Message):
    __slots__ = ("action", "filter", "target", "cancel_reason", "delay_ms", "run_at_unix_ms", "rate", "max_tasks")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REASON_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    MAX_TASKS_FIELD_NUMBER: _ClassVar[int]
    action: BulkAction
    filter: BulkFilter
    target: str
    cancel_reason: str
    delay_ms: int
    run_at_unix_ms: int
    rate: int
    max_tasks: int
    def __init__(self, action: _Optional[_Union[BulkAction, str]] = ..., filter: _Optional[_Union[BulkFilter, _Mapping]] = ..., target: _Optional[str] = ..., cancel_reason: _Optional[str] = ..., delay_ms: _Optional[int] = ..., run_at_unix_ms: _Optional[int] = ..., rate: _Optional[int] = ..., max_tasks: _Optional[int] = ...) -> None: ...

class BulkRun(_message.Message):
    __slots__ = ("id", "queues", "spec", "started_by", "started_unix_ms", "state", "problem", "tasks", "looked_at", "changed", "skipped", "ended_unix_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STARTED_BY_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    ENDED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    queues: str
    spec: BulkSpec
    started_by: str
    started_unix_ms: int
    state: BulkRunState
    problem: str
    tasks: int
    looked_at: int
    changed: int
    skipped: _containers.RepeatedCompositeFieldContainer[BulkSkip]
    ended_unix_ms: int
    def __init__(self, id: _Optional[str] = ..., queues: _Optional[str] = ..., spec: _Optional[_Union[BulkSpec, _Mapping]] = ..., started_by: _Optional[str] = ..., started_unix_ms: _Optional[int] = ..., state: _Optional[_Union[BulkRunState, str]] = ..., problem: _Optional[str] = ..., tasks: _Optional[int] = ..., looked_at: _Optional[int] = ..., changed: _Optional[int] = ..., skipped: _Optional[_Iterable[_Union[BulkSkip, _Mapping]]] = ..., ended_unix_ms: _Optional[int] = ...) -> None: ...

class BulkSkip(_message.Message):
    __slots__ = ("reason", "tasks")
    REASON_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    tasks: int
    def __init__(self, reason: _Optional[str] = ..., tasks: _Optional[int] = ...) -> None: ...

class StoredBulkRun(_message.Message):
    __slots__ = ("run", "queue_id", "after_pid", "end_queue_id")
    RUN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_PID_FIELD_NUMBER: _ClassVar[int]
    END_QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    run: BulkRun
    queue_id: int
    after_pid: bytes
    end_queue_id: int
    def __init__(self, run: _Optional[_Union[BulkRun, _Mapping]] = ..., queue_id: _Optional[int] = ..., after_pid: _Optional[bytes] = ..., end_queue_id: _Optional[int] = ...) -> None: ...

class StartBulkRunRequest(_message.Message):
    __slots__ = ("id", "queues", "spec", "preview", "all_tasks", "preview_from")
    ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    ALL_TASKS_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FROM_FIELD_NUMBER: _ClassVar[int]
    id: str
    queues: str
    spec: BulkSpec
    preview: bool
    all_tasks: bool
    preview_from: BulkPlace
    def __init__(self, id: _Optional[str] = ..., queues: _Optional[str] = ..., spec: _Optional[_Union[BulkSpec, _Mapping]] = ..., preview: _Optional[bool] = ..., all_tasks: _Optional[bool] = ..., preview_from: _Optional[_Union[BulkPlace, _Mapping]] = ...) -> None: ...

class BulkPlace(_message.Message):
    __slots__ = ("queue_id", "after_pid")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_PID_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    after_pid: bytes
    def __init__(self, queue_id: _Optional[int] = ..., after_pid: _Optional[bytes] = ...) -> None: ...

class StartBulkRunResponse(_message.Message):
    __slots__ = ("run", "started", "preview")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    run: BulkRun
    started: bool
    preview: BulkPreview
    def __init__(self, run: _Optional[_Union[BulkRun, _Mapping]] = ..., started: _Optional[bool] = ..., preview: _Optional[_Union[BulkPreview, _Mapping]] = ...) -> None: ...

class BulkPreview(_message.Message):
    __slots__ = ("queues", "tasks", "looked_at", "matched", "leased", "samples", "next")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    queues: int
    tasks: int
    looked_at: int
    matched: int
    leased: int
    samples: _containers.RepeatedCompositeFieldContainer[_inspection_pb2.TaskInfo]
    next: BulkPlace
    def __init__(self, queues: _Optional[int] = ..., tasks: _Optional[int] = ..., looked_at: _Optional[int] = ..., matched: _Optional[int] = ..., leased: _Optional[int] = ..., samples: _Optional[_Iterable[_Union[_inspection_pb2.TaskInfo, _Mapping]]] = ..., next: _Optional[_Union[BulkPlace, _Mapping]] = ...) -> None: ...

class ListBulkRunsRequest(_message.Message):
    __slots__ = ("queue", "id")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    queue: str
    id: str
    def __init__(self, queue: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class ListBulkRunsResponse(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[BulkRun]
    def __init__(self, runs: _Optional[_Iterable[_Union[BulkRun, _Mapping]]] = ...) -> None: ...

class CancelBulkRunRequest(_message.Message):
    __slots__ = ("queue", "id")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    queue: str
    id: str
    def __init__(self, queue: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class CancelBulkRunResponse(_message.Message):
    __slots__ = ("run", "cancelled")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    run: BulkRun
    cancelled: bool
    def __init__(self, run: _Optional[_Union[BulkRun, _Mapping]] = ..., cancelled: _Optional[bool] = ...) -> None: ...
