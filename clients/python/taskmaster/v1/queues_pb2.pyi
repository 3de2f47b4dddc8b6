from taskmaster.v1 import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QueueOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUEUE_ORDER_UNSPECIFIED: _ClassVar[QueueOrder]
    QUEUE_ORDER_TROUBLE: _ClassVar[QueueOrder]

class TroubleSeverity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TROUBLE_SEVERITY_UNSPECIFIED: _ClassVar[TroubleSeverity]
    TROUBLE_SEVERITY_WARNING: _ClassVar[TroubleSeverity]
    TROUBLE_SEVERITY_CRITICAL: _ClassVar[TroubleSeverity]

class WhenFull(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WHEN_FULL_UNSPECIFIED: _ClassVar[WhenFull]
    WHEN_FULL_REFUSE: _ClassVar[WhenFull]
    WHEN_FULL_DROP_OLDEST: _ClassVar[WhenFull]
    WHEN_FULL_DROP_NEWEST: _ClassVar[WhenFull]
QUEUE_ORDER_UNSPECIFIED: QueueOrder
QUEUE_ORDER_TROUBLE: QueueOrder
TROUBLE_SEVERITY_UNSPECIFIED: TroubleSeverity
TROUBLE_SEVERITY_WARNING: TroubleSeverity
TROUBLE_SEVERITY_CRITICAL: TroubleSeverity
WHEN_FULL_UNSPECIFIED: WhenFull
WHEN_FULL_REFUSE: WhenFull
WHEN_FULL_DROP_OLDEST: WhenFull
WHEN_FULL_DROP_NEWEST: WhenFull

class QueueFilter(_message.Message):
    __slots__ = ("name_regex", "group", "min_available", "max_available", "min_leased", "max_leased", "min_delayed", "max_delayed")
    NAME_REGEX_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MIN_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    MAX_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    MIN_LEASED_FIELD_NUMBER: _ClassVar[int]
    MAX_LEASED_FIELD_NUMBER: _ClassVar[int]
    MIN_DELAYED_FIELD_NUMBER: _ClassVar[int]
    MAX_DELAYED_FIELD_NUMBER: _ClassVar[int]
    name_regex: str
    group: str
    min_available: int
    max_available: int
    min_leased: int
    max_leased: int
    min_delayed: int
    max_delayed: int
    def __init__(self, name_regex: _Optional[str] = ..., group: _Optional[str] = ..., min_available: _Optional[int] = ..., max_available: _Optional[int] = ..., min_leased: _Optional[int] = ..., max_leased: _Optional[int] = ..., min_delayed: _Optional[int] = ..., max_delayed: _Optional[int] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("filter", "limit", "page_token", "order", "include_watch")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_WATCH_FIELD_NUMBER: _ClassVar[int]
    filter: QueueFilter
    limit: int
    page_token: str
    order: QueueOrder
    include_watch: bool
    def __init__(self, filter: _Optional[_Union[QueueFilter, _Mapping]] = ..., limit: _Optional[int] = ..., page_token: _Optional[str] = ..., order: _Optional[_Union[QueueOrder, str]] = ..., include_watch: _Optional[bool] = ...) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("queues", "next_page_token", "unreachable")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueStats]
    next_page_token: str
    unreachable: _containers.RepeatedCompositeFieldContainer[UnreachableNode]
    def __init__(self, queues: _Optional[_Iterable[_Union[QueueStats, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., unreachable: _Optional[_Iterable[_Union[UnreachableNode, _Mapping]]] = ...) -> None: ...

class UnreachableNode(_message.Message):
    __slots__ = ("node_id", "name", "address", "problem")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    name: str
    address: str
    problem: str
    def __init__(self, node_id: _Optional[str] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class GetQueueStatsRequest(_message.Message):
    __slots__ = ("queues", "filter", "include_watch")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_WATCH_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedScalarFieldContainer[str]
    filter: QueueFilter
    include_watch: bool
    def __init__(self, queues: _Optional[_Iterable[str]] = ..., filter: _Optional[_Union[QueueFilter, _Mapping]] = ..., include_watch: _Optional[bool] = ...) -> None: ...

class GetQueueStatsResponse(_message.Message):
    __slots__ = ("queues", "totals", "unreachable")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueStats]
    totals: QueueTotals
    unreachable: _containers.RepeatedCompositeFieldContainer[UnreachableNode]
    def __init__(self, queues: _Optional[_Iterable[_Union[QueueStats, _Mapping]]] = ..., totals: _Optional[_Union[QueueTotals, _Mapping]] = ..., unreachable: _Optional[_Iterable[_Union[UnreachableNode, _Mapping]]] = ...) -> None: ...

class QueueStats(_message.Message):
    __slots__ = ("queue", "available", "leased", "delayed", "completed", "enqueue_rate", "lease_rate", "complete_rate", "mean_lease_ms", "oldest_age_ms", "pause", "held_by", "waiting", "kinds", "held_keys", "held_tasks", "held_since_unix_ms", "watch")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_RATE_FIELD_NUMBER: _ClassVar[int]
    LEASE_RATE_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_RATE_FIELD_NUMBER: _ClassVar[int]
    MEAN_LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    HELD_KEYS_FIELD_NUMBER: _ClassVar[int]
    HELD_TASKS_FIELD_NUMBER: _ClassVar[int]
    HELD_SINCE_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    WATCH_FIELD_NUMBER: _ClassVar[int]
    queue: str
    available: int
    leased: int
    delayed: int
    completed: int
    enqueue_rate: float
    lease_rate: float
    complete_rate: float
    mean_lease_ms: float
    oldest_age_ms: int
    pause: QueuePause
    held_by: _containers.RepeatedCompositeFieldContainer[QueueLimit]
    waiting: int
    kinds: QueueKinds
    held_keys: int
    held_tasks: int
    held_since_unix_ms: int
    watch: QueueWatch
    def __init__(self, queue: _Optional[str] = ..., available: _Optional[int] = ..., leased: _Optional[int] = ..., delayed: _Optional[int] = ..., completed: _Optional[int] = ..., enqueue_rate: _Optional[float] = ..., lease_rate: _Optional[float] = ..., complete_rate: _Optional[float] = ..., mean_lease_ms: _Optional[float] = ..., oldest_age_ms: _Optional[int] = ..., pause: _Optional[_Union[QueuePause, _Mapping]] = ..., held_by: _Optional[_Iterable[_Union[QueueLimit, _Mapping]]] = ..., waiting: _Optional[int] = ..., kinds: _Optional[_Union[QueueKinds, _Mapping]] = ..., held_keys: _Optional[int] = ..., held_tasks: _Optional[int] = ..., held_since_unix_ms: _Optional[int] = ..., watch: _Optional[_Union[QueueWatch, _Mapping]] = ...) -> None: ...

class QueueWatch(_message.Message):
    __slots__ = ("failure_rate", "troubles", "history")
    FAILURE_RATE_FIELD_NUMBER: _ClassVar[int]
    TROUBLES_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    failure_rate: float
    troubles: _containers.RepeatedCompositeFieldContainer[Trouble]
    history: QueueHistory
    def __init__(self, failure_rate: _Optional[float] = ..., troubles: _Optional[_Iterable[_Union[Trouble, _Mapping]]] = ..., history: _Optional[_Union[QueueHistory, _Mapping]] = ...) -> None: ...

class Trouble(_message.Message):
    __slots__ = ("kind", "severity", "message", "since_unix_ms", "since_is_exact", "queue")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SINCE_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    SINCE_IS_EXACT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    severity: TroubleSeverity
    message: str
    since_unix_ms: int
    since_is_exact: bool
    queue: str
    def __init__(self, kind: _Optional[str] = ..., severity: _Optional[_Union[TroubleSeverity, str]] = ..., message: _Optional[str] = ..., since_unix_ms: _Optional[int] = ..., since_is_exact: _Optional[bool] = ..., queue: _Optional[str] = ...) -> None: ...

class QueueHistory(_message.Message):
    __slots__ = ("step_ms", "last_unix_ms", "available", "enqueue_rate", "complete_rate", "failure_rate", "leased", "delayed")
    STEP_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_RATE_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_RATE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_RATE_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    step_ms: int
    last_unix_ms: int
    available: _containers.RepeatedScalarFieldContainer[int]
    enqueue_rate: _containers.RepeatedScalarFieldContainer[float]
    complete_rate: _containers.RepeatedScalarFieldContainer[float]
    failure_rate: _containers.RepeatedScalarFieldContainer[float]
    leased: _containers.RepeatedScalarFieldContainer[int]
    delayed: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, step_ms: _Optional[int] = ..., last_unix_ms: _Optional[int] = ..., available: _Optional[_Iterable[int]] = ..., enqueue_rate: _Optional[_Iterable[float]] = ..., complete_rate: _Optional[_Iterable[float]] = ..., failure_rate: _Optional[_Iterable[float]] = ..., leased: _Optional[_Iterable[int]] = ..., delayed: _Optional[_Iterable[int]] = ...) -> None: ...

class QueueKinds(_message.Message):
    __slots__ = ("unclaimed", "count", "most")
    UNCLAIMED_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    unclaimed: int
    count: int
    most: _containers.RepeatedCompositeFieldContainer[KindStats]
    def __init__(self, unclaimed: _Optional[int] = ..., count: _Optional[int] = ..., most: _Optional[_Iterable[_Union[KindStats, _Mapping]]] = ...) -> None: ...

class KindStats(_message.Message):
    __slots__ = ("kind", "available", "leased", "delayed", "unclaimed_since_unix_ms")
    KIND_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    UNCLAIMED_SINCE_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    available: int
    leased: int
    delayed: int
    unclaimed_since_unix_ms: int
    def __init__(self, kind: _Optional[str] = ..., available: _Optional[int] = ..., leased: _Optional[int] = ..., delayed: _Optional[int] = ..., unclaimed_since_unix_ms: _Optional[int] = ...) -> None: ...

class QueueTotals(_message.Message):
    __slots__ = ("queues", "available", "leased", "delayed", "completed", "waiting")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    queues: int
    available: int
    leased: int
    delayed: int
    completed: int
    waiting: int
    def __init__(self, queues: _Optional[int] = ..., available: _Optional[int] = ..., leased: _Optional[int] = ..., delayed: _Optional[int] = ..., completed: _Optional[int] = ..., waiting: _Optional[int] = ...) -> None: ...

class DeleteQueueRequest(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class DeleteQueueResponse(_message.Message):
    __slots__ = ("deleted_tasks",)
    DELETED_TASKS_FIELD_NUMBER: _ClassVar[int]
    deleted_tasks: int
    def __init__(self, deleted_tasks: _Optional[int] = ...) -> None: ...

class ResetLeasesRequest(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class ResetLeasesResponse(_message.Message):
    __slots__ = ("reset_tasks",)
    RESET_TASKS_FIELD_NUMBER: _ClassVar[int]
    reset_tasks: int
    def __init__(self, reset_tasks: _Optional[int] = ...) -> None: ...

class QueueSettings(_message.Message):
    __slots__ = ("queues", "retry", "dead_letter_queue", "lease_duration_ms", "mode", "result_retention_ms", "keep_out_ms", "time_limit_ms", "max_backlog", "when_full", "fair_turns", "max_key_backlog")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    RESULT_RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    KEEP_OUT_MS_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKLOG_FIELD_NUMBER: _ClassVar[int]
    WHEN_FULL_FIELD_NUMBER: _ClassVar[int]
    FAIR_TURNS_FIELD_NUMBER: _ClassVar[int]
    MAX_KEY_BACKLOG_FIELD_NUMBER: _ClassVar[int]
    queues: str
    retry: _tasks_pb2.RetryPolicy
    dead_letter_queue: str
    lease_duration_ms: int
    mode: _tasks_pb2.EnqueueMode
    result_retention_ms: int
    keep_out_ms: int
    time_limit_ms: int
    max_backlog: int
    when_full: WhenFull
    fair_turns: FairTurns
    max_key_backlog: int
    def __init__(self, queues: _Optional[str] = ..., retry: _Optional[_Union[_tasks_pb2.RetryPolicy, _Mapping]] = ..., dead_letter_queue: _Optional[str] = ..., lease_duration_ms: _Optional[int] = ..., mode: _Optional[_Union[_tasks_pb2.EnqueueMode, str]] = ..., result_retention_ms: _Optional[int] = ..., keep_out_ms: _Optional[int] = ..., time_limit_ms: _Optional[int] = ..., max_backlog: _Optional[int] = ..., when_full: _Optional[_Union[WhenFull, str]] = ..., fair_turns: _Optional[_Union[FairTurns, _Mapping]] = ..., max_key_backlog: _Optional[int] = ...) -> None: ...

class FairTurns(_message.Message):
    __slots__ = ("weights",)
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    weights: _containers.ScalarMap[str, int]
    def __init__(self, weights: _Optional[_Mapping[str, int]] = ...) -> None: ...

class PutQueueSettingsRequest(_message.Message):
    __slots__ = ("queues", "settings")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    queues: str
    settings: QueueSettings
    def __init__(self, queues: _Optional[str] = ..., settings: _Optional[_Union[QueueSettings, _Mapping]] = ...) -> None: ...

class PutQueueSettingsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteQueueSettingsRequest(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: str
    def __init__(self, queues: _Optional[str] = ...) -> None: ...

class DeleteQueueSettingsResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: _Optional[bool] = ...) -> None: ...

class ListQueueSettingsRequest(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class ListQueueSettingsResponse(_message.Message):
    __slots__ = ("settings", "effective", "pauses", "limits")
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_FIELD_NUMBER: _ClassVar[int]
    PAUSES_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    settings: _containers.RepeatedCompositeFieldContainer[QueueSettings]
    effective: QueueSettings
    pauses: _containers.RepeatedCompositeFieldContainer[QueuePause]
    limits: _containers.RepeatedCompositeFieldContainer[QueueLimit]
    def __init__(self, settings: _Optional[_Iterable[_Union[QueueSettings, _Mapping]]] = ..., effective: _Optional[_Union[QueueSettings, _Mapping]] = ..., pauses: _Optional[_Iterable[_Union[QueuePause, _Mapping]]] = ..., limits: _Optional[_Iterable[_Union[QueueLimit, _Mapping]]] = ...) -> None: ...

class QueuePause(_message.Message):
    __slots__ = ("queues", "reason", "paused_by", "since_unix_ms", "until_unix_ms")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PAUSED_BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    queues: str
    reason: str
    paused_by: str
    since_unix_ms: int
    until_unix_ms: int
    def __init__(self, queues: _Optional[str] = ..., reason: _Optional[str] = ..., paused_by: _Optional[str] = ..., since_unix_ms: _Optional[int] = ..., until_unix_ms: _Optional[int] = ...) -> None: ...

class PauseQueuesRequest(_message.Message):
    __slots__ = ("queues", "reason", "duration_ms", "until_unix_ms")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    queues: str
    reason: str
    duration_ms: int
    until_unix_ms: int
    def __init__(self, queues: _Optional[str] = ..., reason: _Optional[str] = ..., duration_ms: _Optional[int] = ..., until_unix_ms: _Optional[int] = ...) -> None: ...

class PauseQueuesResponse(_message.Message):
    __slots__ = ("pause",)
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    pause: QueuePause
    def __init__(self, pause: _Optional[_Union[QueuePause, _Mapping]] = ...) -> None: ...

class ResumeQueuesRequest(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: str
    def __init__(self, queues: _Optional[str] = ...) -> None: ...

class ResumeQueuesResponse(_message.Message):
    __slots__ = ("resumed", "pauses")
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    PAUSES_FIELD_NUMBER: _ClassVar[int]
    resumed: bool
    pauses: _containers.RepeatedCompositeFieldContainer[QueuePause]
    def __init__(self, resumed: _Optional[bool] = ..., pauses: _Optional[_Iterable[_Union[QueuePause, _Mapping]]] = ...) -> None: ...

class QueueLimit(_message.Message):
    __slots__ = ("queues", "max_leased", "rate", "limited_by", "since_unix_ms", "leased", "used_up_since_unix_ms", "keys", "held_keys", "held_key_count", "held_tasks")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    MAX_LEASED_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    LIMITED_BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    USED_UP_SINCE_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    HELD_KEYS_FIELD_NUMBER: _ClassVar[int]
    HELD_KEY_COUNT_FIELD_NUMBER: _ClassVar[int]
    HELD_TASKS_FIELD_NUMBER: _ClassVar[int]
    queues: str
    max_leased: int
    rate: LeaseRate
    limited_by: str
    since_unix_ms: int
    leased: int
    used_up_since_unix_ms: int
    keys: str
    held_keys: _containers.RepeatedCompositeFieldContainer[HeldKey]
    held_key_count: int
    held_tasks: int
    def __init__(self, queues: _Optional[str] = ..., max_leased: _Optional[int] = ..., rate: _Optional[_Union[LeaseRate, _Mapping]] = ..., limited_by: _Optional[str] = ..., since_unix_ms: _Optional[int] = ..., leased: _Optional[int] = ..., used_up_since_unix_ms: _Optional[int] = ..., keys: _Optional[str] = ..., held_keys: _Optional[_Iterable[_Union[HeldKey, _Mapping]]] = ..., held_key_count: _Optional[int] = ..., held_tasks: _Optional[int] = ...) -> None: ...

class HeldKey(_message.Message):
    __slots__ = ("key", "leased", "used_up_since_unix_ms", "available")
    KEY_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    USED_UP_SINCE_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    key: str
    leased: int
    used_up_since_unix_ms: int
    available: int
    def __init__(self, key: _Optional[str] = ..., leased: _Optional[int] = ..., used_up_since_unix_ms: _Optional[int] = ..., available: _Optional[int] = ...) -> None: ...

class LeaseRate(_message.Message):
    __slots__ = ("tasks", "per_ms", "burst")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    PER_MS_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    tasks: int
    per_ms: int
    burst: int
    def __init__(self, tasks: _Optional[int] = ..., per_ms: _Optional[int] = ..., burst: _Optional[int] = ...) -> None: ...

class LimitQueuesRequest(_message.Message):
    __slots__ = ("queues", "max_leased", "rate", "keys")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    MAX_LEASED_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    queues: str
    max_leased: int
    rate: LeaseRate
    keys: str
    def __init__(self, queues: _Optional[str] = ..., max_leased: _Optional[int] = ..., rate: _Optional[_Union[LeaseRate, _Mapping]] = ..., keys: _Optional[str] = ...) -> None: ...

class LimitQueuesResponse(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: QueueLimit
    def __init__(self, limit: _Optional[_Union[QueueLimit, _Mapping]] = ...) -> None: ...

class UnlimitQueuesRequest(_message.Message):
    __slots__ = ("queues", "keys")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    queues: str
    keys: str
    def __init__(self, queues: _Optional[str] = ..., keys: _Optional[str] = ...) -> None: ...

class UnlimitQueuesResponse(_message.Message):
    __slots__ = ("removed", "limits")
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    removed: bool
    limits: _containers.RepeatedCompositeFieldContainer[QueueLimit]
    def __init__(self, removed: _Optional[bool] = ..., limits: _Optional[_Iterable[_Union[QueueLimit, _Mapping]]] = ...) -> None: ...
