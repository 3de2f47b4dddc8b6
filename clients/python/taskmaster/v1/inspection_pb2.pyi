from taskmaster.v1 import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PeekKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PEEK_KIND_UNSPECIFIED: _ClassVar[PeekKind]
    PEEK_KIND_HEAD: _ClassVar[PeekKind]
    PEEK_KIND_LEASED: _ClassVar[PeekKind]
    PEEK_KIND_DELAYED: _ClassVar[PeekKind]
    PEEK_KIND_WAITING: _ClassVar[PeekKind]

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    TASK_STATE_NOT_FOUND: _ClassVar[TaskState]
    TASK_STATE_AVAILABLE: _ClassVar[TaskState]
    TASK_STATE_LEASED: _ClassVar[TaskState]
    TASK_STATE_DELAYED: _ClassVar[TaskState]
PEEK_KIND_UNSPECIFIED: PeekKind
PEEK_KIND_HEAD: PeekKind
PEEK_KIND_LEASED: PeekKind
PEEK_KIND_DELAYED: PeekKind
PEEK_KIND_WAITING: PeekKind
TASK_STATE_UNSPECIFIED: TaskState
TASK_STATE_NOT_FOUND: TaskState
TASK_STATE_AVAILABLE: TaskState
TASK_STATE_LEASED: TaskState
TASK_STATE_DELAYED: TaskState

class PeekTasksRequest(_message.Message):
    __slots__ = ("queue", "kind", "limit", "include_data", "after_pid", "kinds")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DATA_FIELD_NUMBER: _ClassVar[int]
    AFTER_PID_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    kind: PeekKind
    limit: int
    include_data: bool
    after_pid: bytes
    kinds: _tasks_pb2.LeaseKinds
    def __init__(self, queue: _Optional[str] = ..., kind: _Optional[_Union[PeekKind, str]] = ..., limit: _Optional[int] = ..., include_data: _Optional[bool] = ..., after_pid: _Optional[bytes] = ..., kinds: _Optional[_Union[_tasks_pb2.LeaseKinds, _Mapping]] = ...) -> None: ...

class PeekTasksResponse(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskInfo]
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskInfo, _Mapping]]] = ...) -> None: ...

class GetTasksRequest(_message.Message):
    __slots__ = ("queue", "pids", "include_data", "keys", "include_signals", "include_children")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PIDS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DATA_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SIGNALS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_CHILDREN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    pids: _containers.RepeatedScalarFieldContainer[bytes]
    include_data: bool
    keys: _containers.RepeatedScalarFieldContainer[str]
    include_signals: bool
    include_children: bool
    def __init__(self, queue: _Optional[str] = ..., pids: _Optional[_Iterable[bytes]] = ..., include_data: _Optional[bool] = ..., keys: _Optional[_Iterable[str]] = ..., include_signals: _Optional[bool] = ..., include_children: _Optional[bool] = ...) -> None: ...

class GetTasksResponse(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskInfo]
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskInfo, _Mapping]]] = ...) -> None: ...

class TaskInfo(_message.Message):
    __slots__ = ("queue", "pid", "state", "data", "attempts", "enqueued_unix_ms", "hidden_until_unix_ms", "lease_token", "worker_address", "worker_label", "leased_unix_ms", "retry", "failures", "dead_letter_from", "progress", "progress_unix_ms", "headers", "key", "cancel_reason", "cancelled_unix_ms", "time_limit_ms", "start_by_unix_ms", "waits", "parents", "order_key", "signals", "dropped_signals", "checkpoint_bytes", "interruptions", "begun", "limit_key", "kind", "children", "more_children")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_UNTIL_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    WORKER_LABEL_FIELD_NUMBER: _ClassVar[int]
    LEASED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FROM_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REASON_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_MS_FIELD_NUMBER: _ClassVar[int]
    START_BY_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    ORDER_KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_SIGNALS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_BYTES_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTIONS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    MORE_CHILDREN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    pid: bytes
    state: TaskState
    data: bytes
    attempts: int
    enqueued_unix_ms: int
    hidden_until_unix_ms: int
    lease_token: int
    worker_address: str
    worker_label: str
    leased_unix_ms: int
    retry: _tasks_pb2.RetryPolicy
    failures: _containers.RepeatedCompositeFieldContainer[TaskFailure]
    dead_letter_from: str
    progress: str
    progress_unix_ms: int
    headers: _containers.ScalarMap[str, str]
    key: str
    cancel_reason: str
    cancelled_unix_ms: int
    time_limit_ms: int
    start_by_unix_ms: int
    waits: TaskWaits
    parents: _containers.RepeatedCompositeFieldContainer[_tasks_pb2.TaskParent]
    order_key: str
    signals: _containers.RepeatedCompositeFieldContainer[_tasks_pb2.TaskSignal]
    dropped_signals: int
    checkpoint_bytes: int
    interruptions: int
    begun: bool
    limit_key: str
    kind: str
    children: _containers.RepeatedCompositeFieldContainer[_tasks_pb2.TaskParent]
    more_children: bool
    def __init__(self, queue: _Optional[str] = ..., pid: _Optional[bytes] = ..., state: _Optional[_Union[TaskState, str]] = ..., data: _Optional[bytes] = ..., attempts: _Optional[int] = ..., enqueued_unix_ms: _Optional[int] = ..., hidden_until_unix_ms: _Optional[int] = ..., lease_token: _Optional[int] = ..., worker_address: _Optional[str] = ..., worker_label: _Optional[str] = ..., leased_unix_ms: _Optional[int] = ..., retry: _Optional[_Union[_tasks_pb2.RetryPolicy, _Mapping]] = ..., failures: _Optional[_Iterable[_Union[TaskFailure, _Mapping]]] = ..., dead_letter_from: _Optional[str] = ..., progress: _Optional[str] = ..., progress_unix_ms: _Optional[int] = ..., headers: _Optional[_Mapping[str, str]] = ..., key: _Optional[str] = ..., cancel_reason: _Optional[str] = ..., cancelled_unix_ms: _Optional[int] = ..., time_limit_ms: _Optional[int] = ..., start_by_unix_ms: _Optional[int] = ..., waits: _Optional[_Union[TaskWaits, _Mapping]] = ..., parents: _Optional[_Iterable[_Union[_tasks_pb2.TaskParent, _Mapping]]] = ..., order_key: _Optional[str] = ..., signals: _Optional[_Iterable[_Union[_tasks_pb2.TaskSignal, _Mapping]]] = ..., dropped_signals: _Optional[int] = ..., checkpoint_bytes: _Optional[int] = ..., interruptions: _Optional[int] = ..., begun: _Optional[bool] = ..., limit_key: _Optional[str] = ..., kind: _Optional[str] = ..., children: _Optional[_Iterable[_Union[_tasks_pb2.TaskParent, _Mapping]]] = ..., more_children: _Optional[bool] = ...) -> None: ...

class TaskWaits(_message.Message):
    __slots__ = ("signals", "order", "on_timeout")
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    ON_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    signals: int
    order: bool
    on_timeout: _tasks_pb2.WaitTimeout
    def __init__(self, signals: _Optional[int] = ..., order: _Optional[bool] = ..., on_timeout: _Optional[_Union[_tasks_pb2.WaitTimeout, str]] = ...) -> None: ...

class TaskFailure(_message.Message):
    __slots__ = ("failed_unix_ms", "attempt", "worker_label", "error")
    FAILED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_LABEL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    failed_unix_ms: int
    attempt: int
    worker_label: str
    error: _tasks_pb2.TaskError
    def __init__(self, failed_unix_ms: _Optional[int] = ..., attempt: _Optional[int] = ..., worker_label: _Optional[str] = ..., error: _Optional[_Union[_tasks_pb2.TaskError, _Mapping]] = ...) -> None: ...
