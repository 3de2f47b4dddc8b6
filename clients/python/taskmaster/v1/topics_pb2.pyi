from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HeaderFilter(_message.Message):
    __slots__ = ("all",)
    ALL_FIELD_NUMBER: _ClassVar[int]
    all: _containers.RepeatedCompositeFieldContainer[HeaderTest]
    def __init__(self, all: _Optional[_Iterable[_Union[HeaderTest, _Mapping]]] = ...) -> None: ...

class HeaderTest(_message.Message):
    __slots__ = ("key", "prefix", "exists")
    KEY_FIELD_NUMBER: _ClassVar[int]
    IN_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    key: str
    prefix: str
    exists: bool
    def __init__(self, key: _Optional[str] = ..., prefix: _Optional[str] = ..., exists: _Optional[bool] = ..., **kwargs) -> None: ...

class HeaderValues(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class Subscription(_message.Message):
    __slots__ = ("topic", "queue", "filter", "ttl_ms", "delete_queue", "expires_unix_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    DELETE_QUEUE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue: str
    filter: HeaderFilter
    ttl_ms: int
    delete_queue: bool
    expires_unix_ms: int
    def __init__(self, topic: _Optional[str] = ..., queue: _Optional[str] = ..., filter: _Optional[_Union[HeaderFilter, _Mapping]] = ..., ttl_ms: _Optional[int] = ..., delete_queue: _Optional[bool] = ..., expires_unix_ms: _Optional[int] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("topic", "queue", "filter", "ttl_ms", "delete_queue")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    DELETE_QUEUE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue: str
    filter: HeaderFilter
    ttl_ms: int
    delete_queue: bool
    def __init__(self, topic: _Optional[str] = ..., queue: _Optional[str] = ..., filter: _Optional[_Union[HeaderFilter, _Mapping]] = ..., ttl_ms: _Optional[int] = ..., delete_queue: _Optional[bool] = ...) -> None: ...

class SubscribeResponse(_message.Message):
    __slots__ = ("created", "expires_unix_ms")
    CREATED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    created: bool
    expires_unix_ms: int
    def __init__(self, created: _Optional[bool] = ..., expires_unix_ms: _Optional[int] = ...) -> None: ...

class UnsubscribeRequest(_message.Message):
    __slots__ = ("topic", "queue")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue: str
    def __init__(self, topic: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class UnsubscribeResponse(_message.Message):
    __slots__ = ("existed", "deleted_tasks")
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    DELETED_TASKS_FIELD_NUMBER: _ClassVar[int]
    existed: bool
    deleted_tasks: int
    def __init__(self, existed: _Optional[bool] = ..., deleted_tasks: _Optional[int] = ...) -> None: ...

class ListSubscriptionsRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class ListSubscriptionsResponse(_message.Message):
    __slots__ = ("subscriptions",)
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    subscriptions: _containers.RepeatedCompositeFieldContainer[Subscription]
    def __init__(self, subscriptions: _Optional[_Iterable[_Union[Subscription, _Mapping]]] = ...) -> None: ...
