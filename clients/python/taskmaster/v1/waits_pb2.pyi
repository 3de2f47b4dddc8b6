from taskmaster.v1 import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_OUTCOME_UNSPECIFIED: _ClassVar[TaskOutcome]
    TASK_OUTCOME_COMPLETED: _ClassVar[TaskOutcome]
    TASK_OUTCOME_DEAD_LETTERED: _ClassVar[TaskOutcome]
    TASK_OUTCOME_REMOVED: _ClassVar[TaskOutcome]
    TASK_OUTCOME_UNKNOWN: _ClassVar[TaskOutcome]
    TASK_OUTCOME_CANCELLED: _ClassVar[TaskOutcome]
    TASK_OUTCOME_CANCEL_REQUESTED: _ClassVar[TaskOutcome]
    TASK_OUTCOME_LEASE_LOST: _ClassVar[TaskOutcome]
TASK_OUTCOME_UNSPECIFIED: TaskOutcome
TASK_OUTCOME_COMPLETED: TaskOutcome
TASK_OUTCOME_DEAD_LETTERED: TaskOutcome
TASK_OUTCOME_REMOVED: TaskOutcome
TASK_OUTCOME_UNKNOWN: TaskOutcome
TASK_OUTCOME_CANCELLED: TaskOutcome
TASK_OUTCOME_CANCEL_REQUESTED: TaskOutcome
TASK_OUTCOME_LEASE_LOST: TaskOutcome

class WaitForTasksRequest(_message.Message):
    __slots__ = ("tasks", "wait_ms", "traceparent")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[AwaitedTask]
    wait_ms: int
    traceparent: str
    def __init__(self, tasks: _Optional[_Iterable[_Union[AwaitedTask, _Mapping]]] = ..., wait_ms: _Optional[int] = ..., traceparent: _Optional[str] = ...) -> None: ...

class AwaitedTask(_message.Message):
    __slots__ = ("queue", "pid", "lease_token")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    pid: bytes
    lease_token: int
    def __init__(self, queue: _Optional[str] = ..., pid: _Optional[bytes] = ..., lease_token: _Optional[int] = ...) -> None: ...

class WaitForTasksResponse(_message.Message):
    __slots__ = ("ended",)
    ENDED_FIELD_NUMBER: _ClassVar[int]
    ended: _containers.RepeatedCompositeFieldContainer[EndedTask]
    def __init__(self, ended: _Optional[_Iterable[_Union[EndedTask, _Mapping]]] = ...) -> None: ...

class EndedTask(_message.Message):
    __slots__ = ("task", "outcome", "result", "ended_unix_ms", "attempts", "error", "cancel_reason")
    TASK_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ENDED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REASON_FIELD_NUMBER: _ClassVar[int]
    task: int
    outcome: TaskOutcome
    result: bytes
    ended_unix_ms: int
    attempts: int
    error: _tasks_pb2.TaskError
    cancel_reason: str
    def __init__(self, task: _Optional[int] = ..., outcome: _Optional[_Union[TaskOutcome, str]] = ..., result: _Optional[bytes] = ..., ended_unix_ms: _Optional[int] = ..., attempts: _Optional[int] = ..., error: _Optional[_Union[_tasks_pb2.TaskError, _Mapping]] = ..., cancel_reason: _Optional[str] = ...) -> None: ...
