from taskmaster.v1 import events_pb2 as _events_pb2
from taskmaster.v1 import tasks_pb2 as _tasks_pb2
from taskmaster.v1 import waits_pb2 as _waits_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StreamRequest(_message.Message):
    __slots__ = ("calls",)
    CALLS_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[StreamCall]
    def __init__(self, calls: _Optional[_Iterable[_Union[StreamCall, _Mapping]]] = ...) -> None: ...

class StreamCall(_message.Message):
    __slots__ = ("id", "update", "lease", "cancel", "wait", "events")
    ID_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    id: int
    update: _tasks_pb2.UpdateTasksRequest
    lease: _tasks_pb2.LeaseTasksRequest
    cancel: CancelCall
    wait: _waits_pb2.WaitForTasksRequest
    events: _events_pb2.ReadEventsRequest
    def __init__(self, id: _Optional[int] = ..., update: _Optional[_Union[_tasks_pb2.UpdateTasksRequest, _Mapping]] = ..., lease: _Optional[_Union[_tasks_pb2.LeaseTasksRequest, _Mapping]] = ..., cancel: _Optional[_Union[CancelCall, _Mapping]] = ..., wait: _Optional[_Union[_waits_pb2.WaitForTasksRequest, _Mapping]] = ..., events: _Optional[_Union[_events_pb2.ReadEventsRequest, _Mapping]] = ...) -> None: ...

class CancelCall(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StreamResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[StreamResult]
    def __init__(self, results: _Optional[_Iterable[_Union[StreamResult, _Mapping]]] = ...) -> None: ...

class StreamResult(_message.Message):
    __slots__ = ("id", "update", "lease", "error", "wait", "events")
    ID_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    id: int
    update: _tasks_pb2.UpdateTasksResponse
    lease: _tasks_pb2.LeaseTasksResponse
    error: _tasks_pb2.Error
    wait: _waits_pb2.WaitForTasksResponse
    events: _events_pb2.ReadEventsResponse
    def __init__(self, id: _Optional[int] = ..., update: _Optional[_Union[_tasks_pb2.UpdateTasksResponse, _Mapping]] = ..., lease: _Optional[_Union[_tasks_pb2.LeaseTasksResponse, _Mapping]] = ..., error: _Optional[_Union[_tasks_pb2.Error, _Mapping]] = ..., wait: _Optional[_Union[_waits_pb2.WaitForTasksResponse, _Mapping]] = ..., events: _Optional[_Union[_events_pb2.ReadEventsResponse, _Mapping]] = ...) -> None: ...
