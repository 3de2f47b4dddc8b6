"""Calls with deadlines, retries and redirects, over threads or asyncio.

Everything above the `io` objects is written once, as coroutines. Those of the blocking client never suspend, because their `io`
blocks instead: `finish` runs them to their end.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc
import grpc.aio
from google.protobuf import message_factory

from . import errors
from .errors import TaskMasterError
from .v1 import service_pb2, tasks_pb2

P = ParamSpec("P")
R = TypeVar("R")

# What a repetition does whose first answer was lost, as in packages/proto/src/methods.ts. All other methods are unsafe to repeat.
REPETITION = {
    **dict.fromkeys(
        ("WaitForTasks", "ReadEvents", "ListQueues", "GetQueueStats", "GetOverview", "PeekTasks", "GetTasks")
        + ("ListQueueSettings", "ListBulkRuns", "ListSchedules", "ListSubscriptions"),
        "read",
    ),
    **dict.fromkeys(
        ("LeaseTasks", "BatchLeaseTasks", "PutQueueSettings", "PauseQueues", "ResumeQueues", "LimitQueues", "UnlimitQueues")
        + ("StartBulkRun", "CancelBulkRun", "PutSchedule", "PauseSchedule", "Subscribe", "Unsubscribe"),
        "harmless",
    ),
}
_SERVICE = service_pb2.DESCRIPTOR.services_by_name["TaskMasterService"]

# Nodes remember request ids for 2 minutes by default. The rest is for the transmission. In seconds.
_REPEAT_ID_WITHIN = 100
_BACKOFF_INITIAL = 0.05
_BACKOFF_MAX = 2.0
# Attempts that go at once to the holder that a node names. After more of them the group probably moves.
_FOLLOWED = 2
_MOST_HOLDERS = 10_000
_OPTIONS = [
    # Calls are repeated here, with the rules of the contract.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Otherwise clients of one process with the same options would share a connection, and its limit of waiting calls.
    ("grpc.use_local_subchannel_pool", 1),
]


class Stop:
    """Is set once, from any thread, with a reason."""

    def __init__(self) -> None:
        self.reason: TaskMasterError | None = None
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[], object]] = {}

    def set(self, reason: TaskMasterError) -> None:
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        self._set.set()
        for callback in callbacks:
            callback()

    def wait(self, seconds: float | None = None) -> bool:
        """Blocks until it is set. False: it is not set yet."""
        return self._set.wait(seconds)

    def on_set(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Calls back when it is set, at once if it is. Returns what takes this back."""
        key = object()
        with self._lock:
            if self.reason is None:
                self._callbacks[key] = callback
                return lambda: self._forget(key)
        callback()
        return lambda: None

    def _forget(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)


class ThreadIO:
    """Blocks the thread."""

    def channel(self, target: str, credentials: grpc.ChannelCredentials | None, options: list) -> Any:
        if credentials is None:
            return grpc.insecure_channel(target, options)
        return grpc.secure_channel(target, credentials, options)

    async def call(self, method: Any, request: Any, timeout: float, metadata: Any, stop: Stop | None) -> Any:
        call = method.future(request, timeout=timeout, metadata=metadata)
        forget = stop.on_set(call.cancel) if stop else None
        try:
            return call.result()
        except grpc.FutureCancelledError:
            raise errors.cancelled("the call was cancelled", maybe_applied=True) from None
        finally:
            if forget:
                forget()

    async def sleep(self, seconds: float, stop: Stop | None) -> None:
        if stop:
            stop.wait(seconds)
        else:
            time.sleep(seconds)

    async def close(self, channel: Any) -> None:
        channel.close()


class AsyncIO:
    """Suspends the task of asyncio."""

    def channel(self, target: str, credentials: grpc.ChannelCredentials | None, options: list) -> Any:
        if credentials is None:
            return grpc.aio.insecure_channel(target, options)
        return grpc.aio.secure_channel(target, credentials, options)

    async def call(self, method: Any, request: Any, timeout: float, metadata: Any, stop: Stop | None) -> Any:
        loop = asyncio.get_running_loop()
        call = method(request, timeout=timeout, metadata=metadata)
        forget = stop.on_set(lambda: loop.call_soon_threadsafe(call.cancel)) if stop else None
        try:
            return await call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > 0:
                raise
            # The program has not cancelled its own task: the stop or the close of the client has cancelled the call.
            raise errors.cancelled("the call was cancelled", maybe_applied=True) from None
        finally:
            if forget:
                forget()

    async def sleep(self, seconds: float, stop: Stop | None) -> None:
        if stop is None:
            await asyncio.sleep(seconds)
            return
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        forget = stop.on_set(lambda: loop.call_soon_threadsafe(woken.set))
        try:
            await asyncio.wait_for(woken.wait(), seconds)
        except TimeoutError:
            pass
        finally:
            forget()

    async def close(self, channel: Any) -> None:
        await channel.close()


def finish(work: Coroutine[Any, Any, R]) -> R:
    """Runs a coroutine over `ThreadIO`, which never suspends."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise RuntimeError("a coroutine of the blocking client has suspended")


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """The same method for the blocking client."""

    @wraps(method)
    def call(self: Any, *args: P.args, **options: P.kwargs) -> R:
        return finish(method(self, *args, **options))

    return call


class Connection:
    """Calls to nodes or proxies. Any of them answers for the whole cluster."""

    _io: ThreadIO | AsyncIO

    def __init__(
        self,
        *endpoints: str,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | Callable[[], str] | None = None,
        timeout: float = 10,
        max_attempts: int = 10,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        """
        :param endpoints: `host:port` of nodes or proxies of one cluster.
        :param credentials: of TLS, as `grpc.ssl_channel_credentials()` makes them. None: plain text.
        :param token: sent as `authorization: Bearer`, or what returns it.
        :param timeout: of a call with its repetitions, in seconds. Waits come on top.
        :param max_attempts: attempts of one call, the first one included.
        :param options: further options of the channels of gRPC.
        """
        if not endpoints:
            raise TypeError("endpoints: at least one is needed")
        self._endpoints = endpoints
        self._credentials = credentials
        self._token = token
        self._timeout = timeout
        self._max_attempts = max_attempts
        self._options = [*_OPTIONS, *options]
        self._at = 0
        self._lock = threading.Lock()
        self._channels: dict[str, Any] = {}
        self._methods: dict[tuple[str, str], Any] = {}
        self._holders: dict[str, str] = {}
        self._closed = False

    def _method(self, address: str, name: str) -> Any:
        with self._lock:
            if self._closed:
                raise errors.cancelled("the client was closed")
            if address not in self._channels:
                self._channels[address] = self._io.channel(address, self._credentials, self._options)
            if (address, name) not in self._methods:
                method = _SERVICE.methods_by_name[name]
                self._methods[address, name] = self._channels[address].unary_unary(
                    f"/{_SERVICE.full_name}/{name}",
                    request_serializer=message_factory.GetMessageClass(method.input_type).SerializeToString,
                    response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
                )
            return self._methods[address, name]

    def _metadata(self) -> list[tuple[str, str]]:
        token = self._token() if callable(self._token) else self._token
        return [] if token is None else [("authorization", f"Bearer {token}")]

    def _address(self, group: str | None) -> str:
        return self._holders.get(group or "", "") or self._endpoints[self._at % len(self._endpoints)]

    def _learn(self, error: TaskMasterError, group: str | None, address: str) -> None:
        """Where the next attempt goes."""
        holder = error.metadata.get("holder")
        # A token goes only to nodes that the user has named, or that TLS has checked.
        may_go = self._token is None or self._credentials is not None or holder in self._endpoints
        if error.reason == "NOT_HOLDER" and group is not None and holder and may_go:
            if len(self._holders) >= _MOST_HOLDERS:
                self._holders.clear()
            self._holders[group] = holder
        elif error.reason == "NOT_HOLDER" or error.code is grpc.StatusCode.UNAVAILABLE:
            self._holders.pop(group or "", None)
            if self._endpoints[self._at % len(self._endpoints)] == address:
                self._at += 1

    async def _call(
        self,
        name: str,
        request: Any,
        *,
        repetition: str | None = None,
        timeout: float | None = None,
        group: str | None = None,
        stop: Stop | None = None,
    ) -> Any:
        """
        Makes attempts until one succeeds, the rules allow no more, or the deadline passes.

        A request with `wait_ms` waits for the rest of this time in later attempts.
        """
        timeout = self._timeout if timeout is None else timeout
        repetition = repetition or REPETITION.get(name, "unsafe")
        waits = getattr(request, "wait_ms", 0) / 1000
        start = time.monotonic()
        maybe_applied = False
        before: TaskMasterError | None = None
        attempt = 0
        while True:
            attempt += 1
            elapsed = time.monotonic() - start
            wait = max(0.0, waits - elapsed)
            left = min(timeout, timeout + waits - elapsed)
            if waits:
                request.wait_ms = round(wait * 1000)
            if stop is not None and stop.reason is not None:
                raise errors.cancelled("the call was cancelled", maybe_applied)
            address = self._address(group)
            try:
                return await self._io.call(self._method(address, name), request, wait + left, self._metadata(), stop)
            except grpc.RpcError as failure:
                error = errors.error_of(failure)
            self._learn(error, group, address)
            if repetition == "read":
                error.maybe_applied = False
            elif maybe_applied and not _is_of_request(error):
                # A refusal does not say what became of an earlier attempt whose answer was lost: it may arrive late.
                error.maybe_applied = True
            maybe_applied = error.maybe_applied
            if before is not None and error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                # The error of the attempt before says why no attempt succeeded in time.
                before.maybe_applied = before.maybe_applied or error.maybe_applied
                raise before from error
            before = error
            elapsed = time.monotonic() - start
            after = self._repeats(error, attempt, repetition, elapsed)
            if after is None or after >= timeout + waits - elapsed:
                raise error
            await self._io.sleep(after, stop)

    def _repeats(self, error: TaskMasterError, attempt: int, repetition: str, elapsed: float) -> float | None:
        """After how many seconds the call is repeated. None: it is not."""
        if not error.retryable:
            return None
        if error.maybe_applied and (repetition == "unsafe" or (repetition == "once" and elapsed >= _REPEAT_ID_WITHIN)):
            return None
        if error.reason == "NOT_HOLDER" and error.metadata.get("holder") and attempt <= _FOLLOWED:
            return 0
        if attempt >= self._max_attempts:
            return None
        bound = min(_BACKOFF_MAX, _BACKOFF_INITIAL * 2 ** (attempt - 1))
        # The delay of the node is the least delay. Jitter is added, so that clients do not return at the same time.
        return (error.retry_delay or 0) + random.random() * bound

    async def _update(self, request: tasks_pb2.UpdateTasksRequest, timeout: float | None = None) -> Any:
        """Applies an update once: all attempts have one request id."""
        if not request.request_id:
            request.request_id = os.urandom(16)
        items = [*request.enqueue[:1], *request.dequeue[:1], *request.renew[:1], *request.release[:1]]
        group = group_of(items[0].queue or items[0].topic) if items else None
        return await self._call("UpdateTasks", request, repetition="once", timeout=timeout, group=group)

    async def _close(self) -> None:
        with self._lock:
            self._closed = True
            channels = list(self._channels.values())
            self._channels.clear()
            self._methods.clear()
        for channel in channels:
            await self._io.close(channel)


def group_of(queue: str) -> str:
    """The group of `group#name`."""
    group, separator, _ = queue.partition("#")
    return group if separator else ""


def _is_of_request(error: TaskMasterError) -> bool:
    """Whether every node refuses the request, so that no attempt can have been applied."""
    return error.code is grpc.StatusCode.INVALID_ARGUMENT and error.reason != "CONFLICTING_ITEMS"
