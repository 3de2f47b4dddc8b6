from taskmaster.v1 import queues_pb2 as _queues_pb2
from taskmaster.v1 import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MissedRuns(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISSED_RUNS_UNSPECIFIED: _ClassVar[MissedRuns]
    MISSED_RUNS_SKIP: _ClassVar[MissedRuns]
    MISSED_RUNS_ONCE: _ClassVar[MissedRuns]
    MISSED_RUNS_ALL: _ClassVar[MissedRuns]

class PutScheduleResult(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PUT_SCHEDULE_RESULT_UNSPECIFIED: _ClassVar[PutScheduleResult]
    PUT_SCHEDULE_RESULT_CREATED: _ClassVar[PutScheduleResult]
    PUT_SCHEDULE_RESULT_CHANGED: _ClassVar[PutScheduleResult]
    PUT_SCHEDULE_RESULT_UNCHANGED: _ClassVar[PutScheduleResult]
MISSED_RUNS_UNSPECIFIED: MissedRuns
MISSED_RUNS_SKIP: MissedRuns
MISSED_RUNS_ONCE: MissedRuns
MISSED_RUNS_ALL: MissedRuns
PUT_SCHEDULE_RESULT_UNSPECIFIED: PutScheduleResult
PUT_SCHEDULE_RESULT_CREATED: PutScheduleResult
PUT_SCHEDULE_RESULT_CHANGED: PutScheduleResult
PUT_SCHEDULE_RESULT_UNCHANGED: PutScheduleResult

class ScheduleSpec(_message.Message):
    __slots__ = ("queue", "data", "retry", "cron", "time_zone", "interval_ms", "missed_runs", "skip_while_running", "pid_prefix", "headers", "time_limit_ms", "start_within_ms", "limit_key", "kind")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    MISSED_RUNS_FIELD_NUMBER: _ClassVar[int]
    SKIP_WHILE_RUNNING_FIELD_NUMBER: _ClassVar[int]
    PID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_MS_FIELD_NUMBER: _ClassVar[int]
    START_WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    queue: str
    data: bytes
    retry: _tasks_pb2.RetryPolicy
    cron: str
    time_zone: str
    interval_ms: int
    missed_runs: MissedRuns
    skip_while_running: bool
    pid_prefix: bytes
    headers: _containers.ScalarMap[str, str]
    time_limit_ms: int
    start_within_ms: int
    limit_key: str
    kind: str
    def __init__(self, queue: _Optional[str] = ..., data: _Optional[bytes] = ..., retry: _Optional[_Union[_tasks_pb2.RetryPolicy, _Mapping]] = ..., cron: _Optional[str] = ..., time_zone: _Optional[str] = ..., interval_ms: _Optional[int] = ..., missed_runs: _Optional[_Union[MissedRuns, str]] = ..., skip_while_running: _Optional[bool] = ..., pid_prefix: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., time_limit_ms: _Optional[int] = ..., start_within_ms: _Optional[int] = ..., limit_key: _Optional[str] = ..., kind: _Optional[str] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("schedule", "spec", "paused", "created_unix_ms", "changed_unix_ms", "next_runs_unix_ms", "last_run_unix_ms", "last_pid", "runs", "missed", "skipped", "triggered")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    NEXT_RUNS_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_RUN_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_PID_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    TRIGGERED_FIELD_NUMBER: _ClassVar[int]
    schedule: str
    spec: ScheduleSpec
    paused: bool
    created_unix_ms: int
    changed_unix_ms: int
    next_runs_unix_ms: _containers.RepeatedScalarFieldContainer[int]
    last_run_unix_ms: int
    last_pid: bytes
    runs: int
    missed: int
    skipped: int
    triggered: int
    def __init__(self, schedule: _Optional[str] = ..., spec: _Optional[_Union[ScheduleSpec, _Mapping]] = ..., paused: _Optional[bool] = ..., created_unix_ms: _Optional[int] = ..., changed_unix_ms: _Optional[int] = ..., next_runs_unix_ms: _Optional[_Iterable[int]] = ..., last_run_unix_ms: _Optional[int] = ..., last_pid: _Optional[bytes] = ..., runs: _Optional[int] = ..., missed: _Optional[int] = ..., skipped: _Optional[int] = ..., triggered: _Optional[int] = ...) -> None: ...

class PutScheduleRequest(_message.Message):
    __slots__ = ("schedule", "spec")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    schedule: str
    spec: ScheduleSpec
    def __init__(self, schedule: _Optional[str] = ..., spec: _Optional[_Union[ScheduleSpec, _Mapping]] = ...) -> None: ...

class PutScheduleResponse(_message.Message):
    __slots__ = ("result", "schedule")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    result: PutScheduleResult
    schedule: Schedule
    def __init__(self, result: _Optional[_Union[PutScheduleResult, str]] = ..., schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class ListSchedulesRequest(_message.Message):
    __slots__ = ("schedule", "group", "next_runs", "limit", "page_token")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NEXT_RUNS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    schedule: str
    group: str
    next_runs: int
    limit: int
    page_token: str
    def __init__(self, schedule: _Optional[str] = ..., group: _Optional[str] = ..., next_runs: _Optional[int] = ..., limit: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSchedulesResponse(_message.Message):
    __slots__ = ("schedules", "next_page_token", "unreachable")
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    next_page_token: str
    unreachable: _containers.RepeatedCompositeFieldContainer[_queues_pb2.UnreachableNode]
    def __init__(self, schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., unreachable: _Optional[_Iterable[_Union[_queues_pb2.UnreachableNode, _Mapping]]] = ...) -> None: ...

class DeleteScheduleRequest(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: str
    def __init__(self, schedule: _Optional[str] = ...) -> None: ...

class DeleteScheduleResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: _Optional[bool] = ...) -> None: ...

class PauseScheduleRequest(_message.Message):
    __slots__ = ("schedule", "paused")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    schedule: str
    paused: bool
    def __init__(self, schedule: _Optional[str] = ..., paused: _Optional[bool] = ...) -> None: ...

class PauseScheduleResponse(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class TriggerScheduleRequest(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: str
    def __init__(self, schedule: _Optional[str] = ...) -> None: ...

class TriggerScheduleResponse(_message.Message):
    __slots__ = ("queue", "pid")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    queue: str
    pid: bytes
    def __init__(self, queue: _Optional[str] = ..., pid: _Optional[bytes] = ...) -> None: ...

class StoredSchedule(_message.Message):
    __slots__ = ("spec", "paused", "created_unix_ms", "changed_unix_ms", "decided_unix_ms", "anchor_unix_ms", "last_run_unix_ms", "last_pid", "triggered_pid", "runs", "missed", "skipped", "triggered", "pauses")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    DECIDED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_RUN_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_PID_FIELD_NUMBER: _ClassVar[int]
    TRIGGERED_PID_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    TRIGGERED_FIELD_NUMBER: _ClassVar[int]
    PAUSES_FIELD_NUMBER: _ClassVar[int]
    spec: ScheduleSpec
    paused: bool
    created_unix_ms: int
    changed_unix_ms: int
    decided_unix_ms: int
    anchor_unix_ms: int
    last_run_unix_ms: int
    last_pid: bytes
    triggered_pid: bytes
    runs: int
    missed: int
    skipped: int
    triggered: int
    pauses: _containers.RepeatedCompositeFieldContainer[StoredPause]
    def __init__(self, spec: _Optional[_Union[ScheduleSpec, _Mapping]] = ..., paused: _Optional[bool] = ..., created_unix_ms: _Optional[int] = ..., changed_unix_ms: _Optional[int] = ..., decided_unix_ms: _Optional[int] = ..., anchor_unix_ms: _Optional[int] = ..., last_run_unix_ms: _Optional[int] = ..., last_pid: _Optional[bytes] = ..., triggered_pid: _Optional[bytes] = ..., runs: _Optional[int] = ..., missed: _Optional[int] = ..., skipped: _Optional[int] = ..., triggered: _Optional[int] = ..., pauses: _Optional[_Iterable[_Union[StoredPause, _Mapping]]] = ...) -> None: ...

class StoredPause(_message.Message):
    __slots__ = ("from_unix_ms", "to_unix_ms")
    FROM_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    TO_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    from_unix_ms: int
    to_unix_ms: int
    def __init__(self, from_unix_ms: _Optional[int] = ..., to_unix_ms: _Optional[int] = ...) -> None: ...
