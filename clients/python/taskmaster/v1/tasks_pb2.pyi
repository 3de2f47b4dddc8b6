from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EnqueueMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENQUEUE_MODE_UNSPECIFIED: _ClassVar[EnqueueMode]
    ENQUEUE_MODE_COLLAPSE: _ClassVar[EnqueueMode]
    ENQUEUE_MODE_FAIL: _ClassVar[EnqueueMode]
    ENQUEUE_MODE_REPLACE: _ClassVar[EnqueueMode]
    ENQUEUE_MODE_RERUN: _ClassVar[EnqueueMode]
    ENQUEUE_MODE_RERUN_FIRST: _ClassVar[EnqueueMode]
    ENQUEUE_MODE_SIGNAL: _ClassVar[EnqueueMode]

class WaitTimeout(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WAIT_TIMEOUT_UNSPECIFIED: _ClassVar[WaitTimeout]
    WAIT_TIMEOUT_DEAD_LETTER: _ClassVar[WaitTimeout]
    WAIT_TIMEOUT_RUN: _ClassVar[WaitTimeout]
    WAIT_TIMEOUT_CANCEL: _ClassVar[WaitTimeout]

class ChildFailure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHILD_FAILURE_UNSPECIFIED: _ClassVar[ChildFailure]
    CHILD_FAILURE_FAIL: _ClassVar[ChildFailure]
    CHILD_FAILURE_CONTINUE: _ClassVar[ChildFailure]
    CHILD_FAILURE_RETRY: _ClassVar[ChildFailure]

class EnqueueResult(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENQUEUE_RESULT_UNSPECIFIED: _ClassVar[EnqueueResult]
    ENQUEUE_RESULT_CREATED: _ClassVar[EnqueueResult]
    ENQUEUE_RESULT_COLLAPSED: _ClassVar[EnqueueResult]
    ENQUEUE_RESULT_REPLACED: _ClassVar[EnqueueResult]
    ENQUEUE_RESULT_RERUN: _ClassVar[EnqueueResult]
    ENQUEUE_RESULT_KEPT_OUT: _ClassVar[EnqueueResult]
    ENQUEUE_RESULT_PUBLISHED: _ClassVar[EnqueueResult]
    ENQUEUE_RESULT_DROPPED: _ClassVar[EnqueueResult]
    ENQUEUE_RESULT_SIGNALLED: _ClassVar[EnqueueResult]
    ENQUEUE_RESULT_SIGNAL_KEPT: _ClassVar[EnqueueResult]

class ItemKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ITEM_KIND_UNSPECIFIED: _ClassVar[ItemKind]
    ITEM_KIND_ENQUEUE: _ClassVar[ItemKind]
    ITEM_KIND_DEQUEUE: _ClassVar[ItemKind]
    ITEM_KIND_RENEW: _ClassVar[ItemKind]
    ITEM_KIND_RELEASE: _ClassVar[ItemKind]
ENQUEUE_MODE_UNSPECIFIED: EnqueueMode
ENQUEUE_MODE_COLLAPSE: EnqueueMode
ENQUEUE_MODE_FAIL: EnqueueMode
ENQUEUE_MODE_REPLACE: EnqueueMode
ENQUEUE_MODE_RERUN: EnqueueMode
ENQUEUE_MODE_RERUN_FIRST: EnqueueMode
ENQUEUE_MODE_SIGNAL: EnqueueMode
WAIT_TIMEOUT_UNSPECIFIED: WaitTimeout
WAIT_TIMEOUT_DEAD_LETTER: WaitTimeout
WAIT_TIMEOUT_RUN: WaitTimeout
WAIT_TIMEOUT_CANCEL: WaitTimeout
CHILD_FAILURE_UNSPECIFIED: ChildFailure
CHILD_FAILURE_FAIL: ChildFailure
CHILD_FAILURE_CONTINUE: ChildFailure
CHILD_FAILURE_RETRY: ChildFailure
ENQUEUE_RESULT_UNSPECIFIED: EnqueueResult
ENQUEUE_RESULT_CREATED: EnqueueResult
ENQUEUE_RESULT_COLLAPSED: EnqueueResult
ENQUEUE_RESULT_REPLACED: EnqueueResult
ENQUEUE_RESULT_RERUN: EnqueueResult
ENQUEUE_RESULT_KEPT_OUT: EnqueueResult
ENQUEUE_RESULT_PUBLISHED: EnqueueResult
ENQUEUE_RESULT_DROPPED: EnqueueResult
ENQUEUE_RESULT_SIGNALLED: EnqueueResult
ENQUEUE_RESULT_SIGNAL_KEPT: EnqueueResult
ITEM_KIND_UNSPECIFIED: ItemKind
ITEM_KIND_ENQUEUE: ItemKind
ITEM_KIND_DEQUEUE: ItemKind
ITEM_KIND_RENEW: ItemKind
ITEM_KIND_RELEASE: ItemKind

class UpdateTasksRequest(_message.Message):
    __slots__ = ("enqueue", "dequeue", "renew", "release", "request_id", "parts", "traceparent")
    ENQUEUE_FIELD_NUMBER: _ClassVar[int]
    DEQUEUE_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    enqueue: _containers.RepeatedCompositeFieldContainer[Enqueue]
    dequeue: _containers.RepeatedCompositeFieldContainer[Dequeue]
    renew: _containers.RepeatedCompositeFieldContainer[Renew]
    release: _containers.RepeatedCompositeFieldContainer[Release]
    request_id: bytes
    parts: _containers.RepeatedCompositeFieldContainer[UpdatePart]
    traceparent: str
    def __init__(self, enqueue: _Optional[_Iterable[_Union[Enqueue, _Mapping]]] = ..., dequeue: _Optional[_Iterable[_Union[Dequeue, _Mapping]]] = ..., renew: _Optional[_Iterable[_Union[Renew, _Mapping]]] = ..., release: _Optional[_Iterable[_Union[Release, _Mapping]]] = ..., request_id: _Optional[bytes] = ..., parts: _Optional[_Iterable[_Union[UpdatePart, _Mapping]]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class UpdatePart(_message.Message):
    __slots__ = ("enqueues", "dequeues", "renewals", "releases")
    ENQUEUES_FIELD_NUMBER: _ClassVar[int]
    DEQUEUES_FIELD_NUMBER: _ClassVar[int]
    RENEWALS_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    enqueues: int
    dequeues: int
    renewals: int
    releases: int
    def __init__(self, enqueues: _Optional[int] = ..., dequeues: _Optional[int] = ..., renewals: _Optional[int] = ..., releases: _Optional[int] = ...) -> None: ...

class TaskLinks(_message.Message):
    __slots__ = ("wait_for", "parents", "order_key")
    WAIT_FOR_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    ORDER_KEY_FIELD_NUMBER: _ClassVar[int]
    wait_for: WaitFor
    parents: _containers.RepeatedCompositeFieldContainer[TaskParent]
    order_key: str
    def __init__(self, wait_for: _Optional[_Union[WaitFor, _Mapping]] = ..., parents: _Optional[_Iterable[_Union[TaskParent, _Mapping]]] = ..., order_key: _Optional[str] = ...) -> None: ...

class WaitFor(_message.Message):
    __slots__ = ("signals", "timeout_ms", "on_timeout", "collect")
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ON_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    COLLECT_FIELD_NUMBER: _ClassVar[int]
    signals: int
    timeout_ms: int
    on_timeout: WaitTimeout
    collect: bool
    def __init__(self, signals: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., on_timeout: _Optional[_Union[WaitTimeout, str]] = ..., collect: _Optional[bool] = ...) -> None: ...

class TaskParent(_message.Message):
    __slots__ = ("queue", "pid", "key", "on_failure")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    pid: bytes
    key: str
    on_failure: ChildFailure
    def __init__(self, queue: _Optional[str] = ..., pid: _Optional[bytes] = ..., key: _Optional[str] = ..., on_failure: _Optional[_Union[ChildFailure, str]] = ...) -> None: ...

class Enqueue(_message.Message):
    __slots__ = ("queue", "pid", "data", "mode", "delay_ms", "retry", "run_at_unix_ms", "headers", "key", "topic", "time_limit_ms", "start_within_ms", "start_by_unix_ms", "links", "signal_id", "limit_key", "kind")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_MS_FIELD_NUMBER: _ClassVar[int]
    START_WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    START_BY_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    queue: str
    pid: bytes
    data: bytes
    mode: EnqueueMode
    delay_ms: int
    retry: RetryPolicy
    run_at_unix_ms: int
    headers: _containers.ScalarMap[str, str]
    key: str
    topic: str
    time_limit_ms: int
    start_within_ms: int
    start_by_unix_ms: int
    links: TaskLinks
    signal_id: str
    limit_key: str
    kind: str
    def __init__(self, queue: _Optional[str] = ..., pid: _Optional[bytes] = ..., data: _Optional[bytes] = ..., mode: _Optional[_Union[EnqueueMode, str]] = ..., delay_ms: _Optional[int] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., run_at_unix_ms: _Optional[int] = ..., headers: _Optional[_Mapping[str, str]] = ..., key: _Optional[str] = ..., topic: _Optional[str] = ..., time_limit_ms: _Optional[int] = ..., start_within_ms: _Optional[int] = ..., start_by_unix_ms: _Optional[int] = ..., links: _Optional[_Union[TaskLinks, _Mapping]] = ..., signal_id: _Optional[str] = ..., limit_key: _Optional[str] = ..., kind: _Optional[str] = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ("max_attempts", "backoff_initial_ms", "backoff_max_ms", "dead_letter_queue")
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_INITIAL_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MAX_MS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    max_attempts: int
    backoff_initial_ms: int
    backoff_max_ms: int
    dead_letter_queue: str
    def __init__(self, max_attempts: _Optional[int] = ..., backoff_initial_ms: _Optional[int] = ..., backoff_max_ms: _Optional[int] = ..., dead_letter_queue: _Optional[str] = ...) -> None: ...

class Dequeue(_message.Message):
    __slots__ = ("queue", "pid", "lease_token", "requeue", "result", "result_retention_ms", "cancel_reason", "key")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REASON_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    queue: str
    pid: bytes
    lease_token: int
    requeue: bool
    result: bytes
    result_retention_ms: int
    cancel_reason: str
    key: str
    def __init__(self, queue: _Optional[str] = ..., pid: _Optional[bytes] = ..., lease_token: _Optional[int] = ..., requeue: _Optional[bool] = ..., result: _Optional[bytes] = ..., result_retention_ms: _Optional[int] = ..., cancel_reason: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class Renew(_message.Message):
    __slots__ = ("queue", "pid", "lease_token", "lease_duration_ms", "progress", "checkpoint", "begun")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    pid: bytes
    lease_token: int
    lease_duration_ms: int
    progress: str
    checkpoint: bytes
    begun: int
    def __init__(self, queue: _Optional[str] = ..., pid: _Optional[bytes] = ..., lease_token: _Optional[int] = ..., lease_duration_ms: _Optional[int] = ..., progress: _Optional[str] = ..., checkpoint: _Optional[bytes] = ..., begun: _Optional[int] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("queue", "pid", "lease_token", "delay_ms", "refund_attempt", "error", "dead_letter", "run_at_unix_ms", "waiting", "key", "interrupted")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    REFUND_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTED_FIELD_NUMBER: _ClassVar[int]
    queue: str
    pid: bytes
    lease_token: int
    delay_ms: int
    refund_attempt: bool
    error: TaskError
    dead_letter: bool
    run_at_unix_ms: int
    waiting: bool
    key: str
    interrupted: bool
    def __init__(self, queue: _Optional[str] = ..., pid: _Optional[bytes] = ..., lease_token: _Optional[int] = ..., delay_ms: _Optional[int] = ..., refund_attempt: _Optional[bool] = ..., error: _Optional[_Union[TaskError, _Mapping]] = ..., dead_letter: _Optional[bool] = ..., run_at_unix_ms: _Optional[int] = ..., waiting: _Optional[bool] = ..., key: _Optional[str] = ..., interrupted: _Optional[bool] = ...) -> None: ...

class TaskError(_message.Message):
    __slots__ = ("message", "details")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    message: str
    details: str
    def __init__(self, message: _Optional[str] = ..., details: _Optional[str] = ...) -> None: ...

class UpdateTasksResponse(_message.Message):
    __slots__ = ("enqueued", "renewed", "released", "refused")
    ENQUEUED_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    enqueued: _containers.RepeatedCompositeFieldContainer[EnqueueOutcome]
    renewed: _containers.RepeatedCompositeFieldContainer[RenewOutcome]
    released: _containers.RepeatedCompositeFieldContainer[ReleaseOutcome]
    refused: _containers.RepeatedCompositeFieldContainer[RefusedPart]
    def __init__(self, enqueued: _Optional[_Iterable[_Union[EnqueueOutcome, _Mapping]]] = ..., renewed: _Optional[_Iterable[_Union[RenewOutcome, _Mapping]]] = ..., released: _Optional[_Iterable[_Union[ReleaseOutcome, _Mapping]]] = ..., refused: _Optional[_Iterable[_Union[RefusedPart, _Mapping]]] = ...) -> None: ...

class RefusedPart(_message.Message):
    __slots__ = ("part", "error")
    PART_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    part: int
    error: Error
    def __init__(self, part: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class EnqueueOutcome(_message.Message):
    __slots__ = ("pid", "result", "leased", "published")
    PID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    pid: bytes
    result: EnqueueResult
    leased: bool
    published: Publication
    def __init__(self, pid: _Optional[bytes] = ..., result: _Optional[_Union[EnqueueResult, str]] = ..., leased: _Optional[bool] = ..., published: _Optional[_Union[Publication, _Mapping]] = ...) -> None: ...

class Publication(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[PublishedTask]
    def __init__(self, tasks: _Optional[_Iterable[_Union[PublishedTask, _Mapping]]] = ...) -> None: ...

class PublishedTask(_message.Message):
    __slots__ = ("queue", "pid", "result", "leased")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    queue: str
    pid: bytes
    result: EnqueueResult
    leased: bool
    def __init__(self, queue: _Optional[str] = ..., pid: _Optional[bytes] = ..., result: _Optional[_Union[EnqueueResult, str]] = ..., leased: _Optional[bool] = ...) -> None: ...

class RenewOutcome(_message.Message):
    __slots__ = ("lease_until_unix_ms", "cancel_reason")
    LEASE_UNTIL_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REASON_FIELD_NUMBER: _ClassVar[int]
    lease_until_unix_ms: int
    cancel_reason: str
    def __init__(self, lease_until_unix_ms: _Optional[int] = ..., cancel_reason: _Optional[str] = ...) -> None: ...

class ReleaseOutcome(_message.Message):
    __slots__ = ("hidden_until_unix_ms", "dead_letter_queue")
    HIDDEN_UNTIL_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_QUEUE_FIELD_NUMBER: _ClassVar[int]
    hidden_until_unix_ms: int
    dead_letter_queue: str
    def __init__(self, hidden_until_unix_ms: _Optional[int] = ..., dead_letter_queue: _Optional[str] = ...) -> None: ...

class LeaseTasksRequest(_message.Message):
    __slots__ = ("queues", "max_tasks", "lease_duration_ms", "max_pid", "wait_ms", "worker_label", "max_bytes", "any_order", "patterns", "max_more_queues", "starts", "include_signals", "kinds", "traceparent")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    MAX_TASKS_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_PID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    WORKER_LABEL_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    ANY_ORDER_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    MAX_MORE_QUEUES_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SIGNALS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedScalarFieldContainer[str]
    max_tasks: int
    lease_duration_ms: int
    max_pid: bytes
    wait_ms: int
    worker_label: str
    max_bytes: int
    any_order: bool
    patterns: _containers.RepeatedCompositeFieldContainer[QueuePattern]
    max_more_queues: int
    starts: LeaseStarts
    include_signals: bool
    kinds: LeaseKinds
    traceparent: str
    def __init__(self, queues: _Optional[_Iterable[str]] = ..., max_tasks: _Optional[int] = ..., lease_duration_ms: _Optional[int] = ..., max_pid: _Optional[bytes] = ..., wait_ms: _Optional[int] = ..., worker_label: _Optional[str] = ..., max_bytes: _Optional[int] = ..., any_order: _Optional[bool] = ..., patterns: _Optional[_Iterable[_Union[QueuePattern, _Mapping]]] = ..., max_more_queues: _Optional[int] = ..., starts: _Optional[_Union[LeaseStarts, _Mapping]] = ..., include_signals: _Optional[bool] = ..., kinds: _Optional[_Union[LeaseKinds, _Mapping]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class LeaseKinds(_message.Message):
    __slots__ = ("patterns",)
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    patterns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, patterns: _Optional[_Iterable[str]] = ...) -> None: ...

class LeaseStarts(_message.Message):
    __slots__ = ("now", "together")
    NOW_FIELD_NUMBER: _ClassVar[int]
    TOGETHER_FIELD_NUMBER: _ClassVar[int]
    now: int
    together: int
    def __init__(self, now: _Optional[int] = ..., together: _Optional[int] = ...) -> None: ...

class QueuePattern(_message.Message):
    __slots__ = ("name_regex", "group", "after_queues", "id")
    NAME_REGEX_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    AFTER_QUEUES_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    name_regex: str
    group: str
    after_queues: int
    id: int
    def __init__(self, name_regex: _Optional[str] = ..., group: _Optional[str] = ..., after_queues: _Optional[int] = ..., id: _Optional[int] = ...) -> None: ...

class MatchedQueue(_message.Message):
    __slots__ = ("queue", "pattern_id")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PATTERN_ID_FIELD_NUMBER: _ClassVar[int]
    queue: str
    pattern_id: int
    def __init__(self, queue: _Optional[str] = ..., pattern_id: _Optional[int] = ...) -> None: ...

class LeaseTasksResponse(_message.Message):
    __slots__ = ("tasks", "more_queues")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    MORE_QUEUES_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[LeasedTask]
    more_queues: _containers.RepeatedCompositeFieldContainer[MatchedQueue]
    def __init__(self, tasks: _Optional[_Iterable[_Union[LeasedTask, _Mapping]]] = ..., more_queues: _Optional[_Iterable[_Union[MatchedQueue, _Mapping]]] = ...) -> None: ...

class LeasedTask(_message.Message):
    __slots__ = ("queue", "pid", "data", "lease_token", "lease_until_unix_ms", "attempt", "enqueued_unix_ms", "max_attempts", "progress", "headers", "key", "lease_duration_ms", "time_limit_ms", "pattern_id", "checkpoint", "unbegun", "signals", "kind", "limit_key", "order_key")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_MS_FIELD_NUMBER: _ClassVar[int]
    PATTERN_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    UNBEGUN_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    ORDER_KEY_FIELD_NUMBER: _ClassVar[int]
    queue: str
    pid: bytes
    data: bytes
    lease_token: int
    lease_until_unix_ms: int
    attempt: int
    enqueued_unix_ms: int
    max_attempts: int
    progress: str
    headers: _containers.ScalarMap[str, str]
    key: str
    lease_duration_ms: int
    time_limit_ms: int
    pattern_id: int
    checkpoint: bytes
    unbegun: int
    signals: LeasedSignals
    kind: str
    limit_key: str
    order_key: str
    def __init__(self, queue: _Optional[str] = ..., pid: _Optional[bytes] = ..., data: _Optional[bytes] = ..., lease_token: _Optional[int] = ..., lease_until_unix_ms: _Optional[int] = ..., attempt: _Optional[int] = ..., enqueued_unix_ms: _Optional[int] = ..., max_attempts: _Optional[int] = ..., progress: _Optional[str] = ..., headers: _Optional[_Mapping[str, str]] = ..., key: _Optional[str] = ..., lease_duration_ms: _Optional[int] = ..., time_limit_ms: _Optional[int] = ..., pattern_id: _Optional[int] = ..., checkpoint: _Optional[bytes] = ..., unbegun: _Optional[int] = ..., signals: _Optional[_Union[LeasedSignals, _Mapping]] = ..., kind: _Optional[str] = ..., limit_key: _Optional[str] = ..., order_key: _Optional[str] = ...) -> None: ...

class LeasedSignals(_message.Message):
    __slots__ = ("signals", "dropped", "left_out")
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    signals: _containers.RepeatedCompositeFieldContainer[TaskSignal]
    dropped: int
    left_out: bool
    def __init__(self, signals: _Optional[_Iterable[_Union[TaskSignal, _Mapping]]] = ..., dropped: _Optional[int] = ..., left_out: _Optional[bool] = ...) -> None: ...

class TaskSignal(_message.Message):
    __slots__ = ("id", "queue", "pid", "completed", "data")
    ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    id: str
    queue: str
    pid: bytes
    completed: bool
    data: bytes
    def __init__(self, id: _Optional[str] = ..., queue: _Optional[str] = ..., pid: _Optional[bytes] = ..., completed: _Optional[bool] = ..., data: _Optional[bytes] = ...) -> None: ...

class BatchUpdateTasksRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[UpdateTasksRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[UpdateTasksRequest, _Mapping]]] = ...) -> None: ...

class BatchUpdateTasksResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[UpdateResult]
    def __init__(self, results: _Optional[_Iterable[_Union[UpdateResult, _Mapping]]] = ...) -> None: ...

class UpdateResult(_message.Message):
    __slots__ = ("response", "error")
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    response: UpdateTasksResponse
    error: Error
    def __init__(self, response: _Optional[_Union[UpdateTasksResponse, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class BatchLeaseTasksRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[LeaseTasksRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[LeaseTasksRequest, _Mapping]]] = ...) -> None: ...

class BatchLeaseTasksResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[LeaseResult]
    def __init__(self, results: _Optional[_Iterable[_Union[LeaseResult, _Mapping]]] = ...) -> None: ...

class LeaseResult(_message.Message):
    __slots__ = ("response", "error")
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    response: LeaseTasksResponse
    error: Error
    def __init__(self, response: _Optional[_Union[LeaseTasksResponse, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "reason", "message", "metadata", "retry_delay_ms", "items")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: str
    message: str
    metadata: _containers.ScalarMap[str, str]
    retry_delay_ms: int
    items: _containers.RepeatedCompositeFieldContainer[ItemRefusal]
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., retry_delay_ms: _Optional[int] = ..., items: _Optional[_Iterable[_Union[ItemRefusal, _Mapping]]] = ...) -> None: ...

class ItemRefusal(_message.Message):
    __slots__ = ("kind", "index", "queue", "pid", "reason", "key")
    KIND_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    kind: ItemKind
    index: int
    queue: str
    pid: bytes
    reason: str
    key: str
    def __init__(self, kind: _Optional[_Union[ItemKind, str]] = ..., index: _Optional[int] = ..., queue: _Optional[str] = ..., pid: _Optional[bytes] = ..., reason: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class UpdateRefused(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ItemRefusal]
    def __init__(self, items: _Optional[_Iterable[_Union[ItemRefusal, _Mapping]]] = ...) -> None: ...
