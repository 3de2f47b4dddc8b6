from taskmaster.v1 import queues_pb2 as _queues_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetOverviewRequest(_message.Message):
    __slots__ = ("after_unix_ms", "include_changes")
    AFTER_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_CHANGES_FIELD_NUMBER: _ClassVar[int]
    after_unix_ms: int
    include_changes: bool
    def __init__(self, after_unix_ms: _Optional[int] = ..., include_changes: _Optional[bool] = ...) -> None: ...

class GetOverviewResponse(_message.Message):
    __slots__ = ("nodes", "unreachable")
    NODES_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeOverview]
    unreachable: _containers.RepeatedCompositeFieldContainer[_queues_pb2.UnreachableNode]
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeOverview, _Mapping]]] = ..., unreachable: _Optional[_Iterable[_Union[_queues_pb2.UnreachableNode, _Mapping]]] = ...) -> None: ...

class NodeOverview(_message.Message):
    __slots__ = ("node_id", "name", "version", "health", "totals", "dead_lettered", "waiting_leases", "rates", "troubles", "troubled_queues", "history", "disk_free_bytes", "disk_full_below_bytes", "changes")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERED_FIELD_NUMBER: _ClassVar[int]
    WAITING_LEASES_FIELD_NUMBER: _ClassVar[int]
    RATES_FIELD_NUMBER: _ClassVar[int]
    TROUBLES_FIELD_NUMBER: _ClassVar[int]
    TROUBLED_QUEUES_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FULL_BELOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    name: str
    version: str
    health: str
    totals: _queues_pb2.QueueTotals
    dead_lettered: int
    waiting_leases: int
    rates: OverviewRates
    troubles: _containers.RepeatedCompositeFieldContainer[_queues_pb2.Trouble]
    troubled_queues: int
    history: OverviewHistory
    disk_free_bytes: int
    disk_full_below_bytes: int
    changes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node_id: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[str] = ..., health: _Optional[str] = ..., totals: _Optional[_Union[_queues_pb2.QueueTotals, _Mapping]] = ..., dead_lettered: _Optional[int] = ..., waiting_leases: _Optional[int] = ..., rates: _Optional[_Union[OverviewRates, _Mapping]] = ..., troubles: _Optional[_Iterable[_Union[_queues_pb2.Trouble, _Mapping]]] = ..., troubled_queues: _Optional[int] = ..., history: _Optional[_Union[OverviewHistory, _Mapping]] = ..., disk_free_bytes: _Optional[int] = ..., disk_full_below_bytes: _Optional[int] = ..., changes: _Optional[_Iterable[str]] = ...) -> None: ...

class OverviewRates(_message.Message):
    __slots__ = ("enqueued", "leased", "completed", "failed", "dead_lettered")
    ENQUEUED_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERED_FIELD_NUMBER: _ClassVar[int]
    enqueued: float
    leased: float
    completed: float
    failed: float
    dead_lettered: float
    def __init__(self, enqueued: _Optional[float] = ..., leased: _Optional[float] = ..., completed: _Optional[float] = ..., failed: _Optional[float] = ..., dead_lettered: _Optional[float] = ...) -> None: ...

class OverviewHistory(_message.Message):
    __slots__ = ("step_ms", "last_unix_ms", "available", "leased", "delayed", "enqueued", "completed", "failed", "dead_lettered")
    STEP_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERED_FIELD_NUMBER: _ClassVar[int]
    step_ms: int
    last_unix_ms: int
    available: _containers.RepeatedScalarFieldContainer[int]
    leased: _containers.RepeatedScalarFieldContainer[int]
    delayed: _containers.RepeatedScalarFieldContainer[int]
    enqueued: _containers.RepeatedScalarFieldContainer[float]
    completed: _containers.RepeatedScalarFieldContainer[float]
    failed: _containers.RepeatedScalarFieldContainer[float]
    dead_lettered: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, step_ms: _Optional[int] = ..., last_unix_ms: _Optional[int] = ..., available: _Optional[_Iterable[int]] = ..., leased: _Optional[_Iterable[int]] = ..., delayed: _Optional[_Iterable[int]] = ..., enqueued: _Optional[_Iterable[float]] = ..., completed: _Optional[_Iterable[float]] = ..., failed: _Optional[_Iterable[float]] = ..., dead_lettered: _Optional[_Iterable[float]] = ...) -> None: ...
