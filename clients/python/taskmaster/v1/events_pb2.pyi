from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_KIND_UNSPECIFIED: _ClassVar[EventKind]
    EVENT_KIND_MISSED: _ClassVar[EventKind]
    EVENT_KIND_ENQUEUED: _ClassVar[EventKind]
    EVENT_KIND_CHANGED: _ClassVar[EventKind]
    EVENT_KIND_LEASED: _ClassVar[EventKind]
    EVENT_KIND_PROGRESSED: _ClassVar[EventKind]
    EVENT_KIND_FAILED: _ClassVar[EventKind]
    EVENT_KIND_RELEASED: _ClassVar[EventKind]
    EVENT_KIND_CANCEL_REQUESTED: _ClassVar[EventKind]
    EVENT_KIND_COMPLETED: _ClassVar[EventKind]
    EVENT_KIND_DEAD_LETTERED: _ClassVar[EventKind]
    EVENT_KIND_CANCELLED: _ClassVar[EventKind]
    EVENT_KIND_REMOVED: _ClassVar[EventKind]
    EVENT_KIND_MOVED: _ClassVar[EventKind]
    EVENT_KIND_QUEUE_DELETED: _ClassVar[EventKind]
    EVENT_KIND_PAUSED: _ClassVar[EventKind]
    EVENT_KIND_RESUMED: _ClassVar[EventKind]
    EVENT_KIND_LIMIT_REACHED: _ClassVar[EventKind]
EVENT_KIND_UNSPECIFIED: EventKind
EVENT_KIND_MISSED: EventKind
EVENT_KIND_ENQUEUED: EventKind
EVENT_KIND_CHANGED: EventKind
EVENT_KIND_LEASED: EventKind
EVENT_KIND_PROGRESSED: EventKind
EVENT_KIND_FAILED: EventKind
EVENT_KIND_RELEASED: EventKind
EVENT_KIND_CANCEL_REQUESTED: EventKind
EVENT_KIND_COMPLETED: EventKind
EVENT_KIND_DEAD_LETTERED: EventKind
EVENT_KIND_CANCELLED: EventKind
EVENT_KIND_REMOVED: EventKind
EVENT_KIND_MOVED: EventKind
EVENT_KIND_QUEUE_DELETED: EventKind
EVENT_KIND_PAUSED: EventKind
EVENT_KIND_RESUMED: EventKind
EVENT_KIND_LIMIT_REACHED: EventKind

class ReadEventsRequest(_message.Message):
    __slots__ = ("queues", "after", "kinds", "pid", "key", "max_events", "wait_ms", "traceparent")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_EVENTS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    queues: str
    after: str
    kinds: _containers.RepeatedScalarFieldContainer[EventKind]
    pid: bytes
    key: str
    max_events: int
    wait_ms: int
    traceparent: str
    def __init__(self, queues: _Optional[str] = ..., after: _Optional[str] = ..., kinds: _Optional[_Iterable[_Union[EventKind, str]]] = ..., pid: _Optional[bytes] = ..., key: _Optional[str] = ..., max_events: _Optional[int] = ..., wait_ms: _Optional[int] = ..., traceparent: _Optional[str] = ...) -> None: ...

class ReadEventsResponse(_message.Message):
    __slots__ = ("events", "position")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    position: str
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., position: _Optional[str] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("position", "kind", "at_unix_ms", "queue", "pid", "key", "attempts", "worker", "text", "to_queue", "to_pid", "tasks")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TO_QUEUE_FIELD_NUMBER: _ClassVar[int]
    TO_PID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    position: str
    kind: EventKind
    at_unix_ms: int
    queue: str
    pid: bytes
    key: str
    attempts: int
    worker: str
    text: str
    to_queue: str
    to_pid: bytes
    tasks: int
    def __init__(self, position: _Optional[str] = ..., kind: _Optional[_Union[EventKind, str]] = ..., at_unix_ms: _Optional[int] = ..., queue: _Optional[str] = ..., pid: _Optional[bytes] = ..., key: _Optional[str] = ..., attempts: _Optional[int] = ..., worker: _Optional[str] = ..., text: _Optional[str] = ..., to_queue: _Optional[str] = ..., to_pid: _Optional[bytes] = ..., tasks: _Optional[int] = ...) -> None: ...
