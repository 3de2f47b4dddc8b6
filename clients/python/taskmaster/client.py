"""The clients and their tasks. Times are in seconds, queues are named `group#name`."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Generic, Self, TypeVar

import grpc

from . import errors
from .calls import AsyncIO, Connection, Stop, ThreadIO, blocking, group_of
from .errors import TaskMasterError
from .leases import Keeper, Lease
from .v1 import inspection_pb2, tasks_pb2, waits_pb2

Pid = str | bytes | int
T = TypeVar("T", bound="_Task")

# Length of one request of a wait. After that the client asks again, so that it notices a node that does not answer.
_POLL = 60.0
_MODES = ("collapse", "fail", "replace", "rerun", "rerun-first", "signal")


def pid_bytes(pid: Pid) -> bytes:
    """A PID as bytes: text in UTF-8, a non-negative number as 8 bytes, so that the lowest comes first."""
    if isinstance(pid, int):
        return pid.to_bytes(8, "big")
    return pid.encode() if isinstance(pid, str) else pid


def encode(data: Any) -> bytes:
    """Data as bytes: bytes as they are, anything else as JSON."""
    if isinstance(data, bytes):
        return data
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def ms(seconds: float) -> int:
    if not isinstance(seconds, (int, float)):
        raise TypeError(f"a time is a number of seconds, not {seconds!r}")
    return round(seconds * 1000)


def _unix_ms(instant: datetime) -> int:
    return ms(instant.timestamp())


def retry_policy(
    max_attempts: int = 20, backoff: float = 1, backoff_max: float = 3600, dead_letter_queue: str = ""
) -> tasks_pb2.RetryPolicy:
    """What happens after a failed attempt. `max_attempts` 0: no limit. `backoff` 0: none."""
    return tasks_pb2.RetryPolicy(
        max_attempts=max_attempts,
        backoff_initial_ms=ms(backoff),
        backoff_max_ms=ms(backoff_max),
        dead_letter_queue=dead_letter_queue,
    )


def new_task(
    queue: str = "",
    data: Any = b"",
    *,
    pid: Pid = b"",
    key: str = "",
    mode: str | None = None,
    delay: float = 0,
    run_at: datetime | None = None,
    retry: tasks_pb2.RetryPolicy | None = None,
    time_limit: float = 0,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> tasks_pb2.Enqueue:
    """
    An enqueue for `update`, `complete` and `Done`.

    :param pid: order and identity. Empty: the node assigns one behind all others (FIFO).
    :param mode: if the PID or key is in the queue already: `collapse` (default), `fail`, `replace`, `rerun`, `rerun-first`. Or
            `signal`: not a task, but a signal for the one that waits for it.
    :param more: other fields of `Enqueue`, as in tasks.proto.
    """
    if mode is not None and mode not in _MODES:
        raise TypeError(f"mode: {mode!r} is none of {', '.join(_MODES)}")
    if headers is not None and not all(isinstance(text, str) for pair in headers.items() for text in pair):
        raise TypeError("headers: keys and values must be text")
    name = "UNSPECIFIED" if mode is None else mode.upper().replace("-", "_")
    return tasks_pb2.Enqueue(
        queue=queue,
        data=encode(data),
        pid=pid_bytes(pid),
        key=key,
        mode=tasks_pb2.EnqueueMode.Value(f"ENQUEUE_MODE_{name}"),
        delay_ms=ms(delay),
        run_at_unix_ms=0 if run_at is None else _unix_ms(run_at),
        retry=retry,
        time_limit_ms=ms(time_limit),
        headers=headers,
        **more,
    )


def _task_name(pid: Pid | None, key: str | None) -> dict[str, Any]:
    if (pid is None) == (key is None):
        raise TypeError("name the task by its pid or by its key")
    return {"key": key} if pid is None else {"pid": pid_bytes(pid)}


@dataclass(frozen=True)
class TaskEnd:
    """How a task has ended: `completed`, `dead-lettered`, `removed`, `cancelled`, or `unknown`."""

    outcome: str
    #: None: it left none.
    result: Any
    attempts: int
    #: The message of its last error, of a dead letter.
    error: str
    cancel_reason: str


def _end_of(ended: waits_pb2.EndedTask) -> TaskEnd:
    name = waits_pb2.TaskOutcome.Name(ended.outcome).removeprefix("TASK_OUTCOME_").lower().replace("_", "-")
    result = json.loads(ended.result) if ended.result else None
    return TaskEnd(name, result, ended.attempts, ended.error.message, ended.cancel_reason)


class _Task:
    """A leased task. Its lease ends by itself; workers renew it."""

    def __init__(self, connection: _Client, task: tasks_pb2.LeasedTask, lease: Lease) -> None:
        self._connection = connection
        self._lease = lease
        self.queue: str = task.queue
        self.pid: bytes = task.pid
        self.key: str = task.key
        #: The payload.
        self.bytes: bytes = task.data
        self.headers: dict[str, str] = dict(task.headers)
        #: Number of the attempt, from 1.
        self.attempt: int = task.attempt
        #: Grows with every lease of the task: a fencing token for other stores.
        self.lease_token: int = task.lease_token
        #: What an earlier attempt has left with `checkpoint`. None: nothing.
        self.previous_checkpoint: bytes | None = task.checkpoint if task.HasField("checkpoint") else None
        #: What an earlier attempt has reported last. Empty: nothing.
        self.previous_progress: str = task.progress
        #: How long the attempt may take, in seconds. None: there is no limit.
        self.time_limit: float | None = lease.limit
        #: When it was enqueued, by the node's clock.
        self.enqueued_at = datetime.fromtimestamp(task.enqueued_unix_ms / 1000, timezone.utc)
        #: The message as it came.
        self.message = task

    def __repr__(self) -> str:
        """For logs: what names it, without its data."""
        names = f"queue={self.queue!r}, pid={self.pid!r}, attempt={self.attempt}, lease_token={self.lease_token}"
        return f"{type(self).__name__}({names})"

    @property
    def data(self) -> Any:
        """The payload, read as JSON."""
        return json.loads(self.bytes)

    @property
    def stop_reason(self) -> TaskMasterError | None:
        """Why the work should end: the lease is lost or over, the time limit is reached, or the task was cancelled."""
        return self._lease.stop.reason

    def stopped(self, seconds: float = 0) -> bool:
        """Whether the work should end. Waits for this, at most so long. It blocks: for handlers in threads."""
        return self._lease.stop.wait(seconds)

    def raise_if_stopped(self) -> None:
        if self.stop_reason is not None:
            raise self.stop_reason

    def _name(self) -> dict[str, Any]:
        return {"queue": self.queue, "pid": self.pid, "lease_token": self.lease_token}

    async def _end(self, how: str, request: tasks_pb2.UpdateTasksRequest, timeout: float | None) -> Any:
        """Sends the update that ends the lease."""
        self._lease.settle(how)
        try:
            reply = await self._connection._update(request, timeout)
        except TaskMasterError as error:
            self._lease.unsettle(error)
            raise
        except BaseException:
            self._lease.settled = ""
            raise
        self._connection._keeper.forget(self._lease)
        return reply

    async def _complete(
        self, result: Any, enqueue: Iterable[tasks_pb2.Enqueue], result_retention: float | None, timeout: float | None
    ) -> tasks_pb2.UpdateTasksResponse:
        dequeue = tasks_pb2.Dequeue(**self._name())
        if result is not None:
            dequeue.result = encode(result)
            if result_retention is not None:
                dequeue.result_retention_ms = ms(result_retention)
        request = tasks_pb2.UpdateTasksRequest(dequeue=[dequeue], enqueue=enqueue)
        return await self._end("completed", request, timeout)

    async def _release(
        self,
        error: object,
        delay: float | None,
        refund_attempt: bool,
        interrupted: bool,
        dead_letter: bool,
        timeout: float | None,
    ) -> tasks_pb2.ReleaseOutcome:
        release = tasks_pb2.Release(
            **self._name(),
            delay_ms=None if delay is None else ms(delay),
            refund_attempt=refund_attempt or interrupted,
            interrupted=interrupted,
            dead_letter=dead_letter,
            error=None if error is None else task_error(error),
        )
        reply = await self._end("released", tasks_pb2.UpdateTasksRequest(release=[release]), timeout)
        return reply.released[0]

    async def _renew(self, lease_duration: float | None, timeout: float | None, **fields: Any) -> None:
        if self._lease.lost is not None:
            raise self._lease.lost
        duration = self._lease.duration if lease_duration is None else lease_duration
        renew = tasks_pb2.Renew(**self._name(), lease_duration_ms=ms(duration), **fields)
        try:
            reply = await self._connection._update(tasks_pb2.UpdateTasksRequest(renew=[renew]), timeout)
        except (errors.LeaseLostError, errors.TaskNotFoundError) as error:
            self._lease.lose(error)
            raise
        if reply.renewed[0].HasField("cancel_reason"):
            self._lease.cancel(reply.renewed[0].cancel_reason)


def task_error(error: object) -> tasks_pb2.TaskError:
    """What a task keeps of an error: its name and message, and its traceback with its causes."""
    if not isinstance(error, BaseException):
        return tasks_pb2.TaskError(message=_cut(str(error), 512))
    details = "".join(traceback.format_exception(error))
    message = f"{type(error).__name__}: {error}"
    # The end of a traceback says where it was raised.
    return tasks_pb2.TaskError(message=_cut(message, 512), details=details.encode()[-2048:].decode(errors="ignore"))


def _cut(text: str, most: int) -> str:
    return text.encode()[:most].decode(errors="ignore")


class AsyncLeasedTask(_Task):
    """A leased task of an `AsyncClient`."""

    async def complete(
        self,
        result: Any = None,
        *,
        enqueue: Iterable[tasks_pb2.Enqueue] = (),
        result_retention: float | None = None,
        timeout: float | None = None,
    ) -> tasks_pb2.UpdateTasksResponse:
        """
        Removes the task because it is done, leaves its result (JSON, or bytes as they are), and enqueues follow-up tasks of its
        group, all or nothing. Raises LeaseLostError or TaskNotFoundError if another worker has the task or had it.
        """
        return await self._complete(result, enqueue, result_retention, timeout)

    async def release(
        self,
        error: object = None,
        *,
        delay: float | None = None,
        refund_attempt: bool = False,
        interrupted: bool = False,
        dead_letter: bool = False,
        timeout: float | None = None,
    ) -> tasks_pb2.ReleaseOutcome:
        """
        Returns the task before its lease ends. With an error the attempt has failed. `delay`: None: the backoff of its retry policy.
        `refund_attempt`: the attempt does not count. `interrupted`: likewise, because the worker stops. `dead_letter`: it was the
        last attempt.
        """
        return await self._release(error, delay, refund_attempt, interrupted, dead_letter, timeout)

    async def renew(self, lease_duration: float | None = None, *, timeout: float | None = None) -> None:
        """Extends the lease from now on. None: as long as before. Workers do it by themselves."""
        await self._renew(lease_duration, timeout)

    async def checkpoint(self, data: bytes, *, timeout: float | None = None) -> None:
        """Leaves up to 16 KiB with which the next attempt continues, and renews the lease."""
        await self._renew(None, timeout, checkpoint=data)

    async def report_progress(self, progress: str, *, timeout: float | None = None) -> None:
        """Says how far the work is, in at most 256 bytes, and renews the lease."""
        await self._renew(None, timeout, progress=progress)


class LeasedTask(_Task):
    """A leased task of a `Client`. Its methods are those of `AsyncLeasedTask`, and block."""

    complete = blocking(AsyncLeasedTask.complete)
    release = blocking(AsyncLeasedTask.release)
    renew = blocking(AsyncLeasedTask.renew)
    checkpoint = blocking(AsyncLeasedTask.checkpoint)
    report_progress = blocking(AsyncLeasedTask.report_progress)


class _Client(Connection, Generic[T]):
    _leased: type[T]

    def __init__(self, *endpoints: str, **options: Any) -> None:
        super().__init__(*endpoints, **options)
        # Renewals go over threads, also those of an `AsyncClient`.
        self._renewing = self if isinstance(self._io, ThreadIO) else Client(*endpoints, **options)
        self._keeper = Keeper(self._renewing)

    async def _lease(self, request: tasks_pb2.LeaseTasksRequest, timeout: float | None, stop: Stop | None = None) -> list[T]:
        sent_at = time.monotonic()
        requested = request.lease_duration_ms / 1000
        group = group_of(request.queues[0]) if request.queues else None
        reply = await self._call("LeaseTasks", request, timeout=timeout, group=group, stop=stop)
        received_at = time.monotonic()
        return [self._leased(self, task, Lease(task, requested, sent_at, received_at)) for task in reply.tasks]

    async def _wait(self, queue: str, pid: Pid, timeout: float | None) -> TaskEnd:
        awaited = waits_pb2.AwaitedTask(queue=queue, pid=pid_bytes(pid))
        until = float("inf") if timeout is None else time.monotonic() + timeout
        while True:
            wait = max(0.0, min(_POLL, until - time.monotonic()))
            request = waits_pb2.WaitForTasksRequest(tasks=[awaited], wait_ms=ms(wait))
            reply = await self._call("WaitForTasks", request, group=group_of(queue))
            if reply.ended:
                return _end_of(reply.ended[0])
            if time.monotonic() >= until:
                raise errors.make_error("the task has not ended in time", "DEADLINE_EXCEEDED", grpc.StatusCode.DEADLINE_EXCEEDED)

    async def _close_all(self) -> None:
        self._keeper.close()
        if self._renewing is not self:
            self._renewing.close()
        await self._close()


class AsyncClient(_Client[AsyncLeasedTask]):
    """A client for asyncio. Its calls belong to the event loop in which the first one was made."""

    _io = AsyncIO()
    _leased = AsyncLeasedTask

    async def enqueue(
        self, queue: str, data: Any = b"", *, timeout: float | None = None, **options: Any
    ) -> tasks_pb2.EnqueueOutcome:
        """Enqueues one task with the options of `new_task`. Bytes are stored as they are, other data as JSON."""
        request = tasks_pb2.UpdateTasksRequest(enqueue=[new_task(queue, data, **options)])
        return (await self._update(request, timeout)).enqueued[0]

    async def update(
        self,
        *,
        enqueue: Iterable[tasks_pb2.Enqueue] = (),
        dequeue: Iterable[tasks_pb2.Dequeue] = (),
        renew: Iterable[tasks_pb2.Renew] = (),
        release: Iterable[tasks_pb2.Release] = (),
        request_id: bytes = b"",
        timeout: float | None = None,
    ) -> tasks_pb2.UpdateTasksResponse:
        """
        Changes tasks of one group, all or nothing. All its attempts have one request id, so it is applied once.

        :param request_id: Empty: 16 random bytes.
        """
        items = {"enqueue": enqueue, "dequeue": dequeue, "renew": renew, "release": release}
        return await self._update(tasks_pb2.UpdateTasksRequest(request_id=request_id, **items), timeout)

    async def lease(
        self,
        *queues: str,
        max: int = 1,
        lease_duration: float = 0,
        wait: float = 0,
        max_pid: Pid = b"",
        kinds: Sequence[str] | None = None,
        worker_label: str = "",
        timeout: float | None = None,
    ) -> list[AsyncLeasedTask]:
        """Leases the first tasks by PID, from the first queue, then from the second. `lease_duration` 0: as the queue says."""
        request = tasks_pb2.LeaseTasksRequest(
            queues=queues,
            max_tasks=max,
            lease_duration_ms=ms(lease_duration),
            wait_ms=ms(wait),
            max_pid=pid_bytes(max_pid),
            kinds=None if kinds is None else tasks_pb2.LeaseKinds(patterns=kinds),
            worker_label=worker_label,
        )
        return await self._lease(request, timeout)

    async def wait(self, queue: str, pid: Pid, *, timeout: float | None = None) -> TaskEnd:
        """How a task ends, or has ended. Raises DeadlineExceededError after `timeout` seconds. None: it waits until then."""
        return await self._wait(queue, pid, timeout)

    async def result(self, queue: str, pid: Pid, *, timeout: float | None = None) -> Any:
        """The result of a task. Raises TaskNotCompletedError if it ends in another way, and as `wait` does."""
        end = await self._wait(queue, pid, timeout)
        if end.outcome == "completed":
            return end.result
        if end.outcome == "unknown":
            message = "the task is not in the queue, and has left no result"
            raise errors.make_error(message, "TASK_NOT_FOUND", grpc.StatusCode.NOT_FOUND)
        why = end.error or end.cancel_reason
        message = f"the task was {end.outcome}" + (f": {why}" if why else "")
        details = {"metadata": {"outcome": end.outcome, "queue": queue}}
        raise errors.make_error(message, "TASK_NOT_COMPLETED", grpc.StatusCode.FAILED_PRECONDITION, **details)

    async def cancel(self, queue: str, pid: Pid | None = None, *, key: str | None = None, reason: str = "") -> None:
        """Cancels a task. One that waits goes at once; the worker of a leased one is told within about a second."""
        dequeue = tasks_pb2.Dequeue(queue=queue, cancel_reason=reason, **_task_name(pid, key))
        await self._update(tasks_pb2.UpdateTasksRequest(dequeue=[dequeue]))

    async def reschedule(
        self,
        queue: str,
        pid: Pid | None = None,
        *,
        key: str | None = None,
        delay: float = 0,
        run_at: datetime | None = None,
    ) -> None:
        """Changes when a task that waits becomes available. Without a time: now."""
        release = tasks_pb2.Release(queue=queue, waiting=True, **_task_name(pid, key))
        if run_at is None:
            release.delay_ms = ms(delay)
        else:
            release.run_at_unix_ms = _unix_ms(run_at)
        await self._update(tasks_pb2.UpdateTasksRequest(release=[release]))

    async def get(self, queue: str, *pids: Pid, keys: Sequence[str] = ()) -> list[inspection_pb2.TaskInfo]:
        """The states of tasks, those of the PIDs first."""
        request = inspection_pb2.GetTasksRequest(queue=queue, pids=map(pid_bytes, pids), keys=keys, include_data=True)
        return list((await self._call("GetTasks", request, group=group_of(queue))).tasks)

    async def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        """
        Calls any method of the service, such as `GetQueueStats`, with its message. It is repeated as the contract allows; an
        update with a `request_id` is applied once.
        """
        copy = type(request)()
        copy.CopyFrom(request)
        repetition = "once" if getattr(request, "request_id", b"") else None
        return await self._call(method, copy, repetition=repetition, timeout=timeout)

    async def close(self) -> None:
        """Ends its calls and renewals. Stop the workers first."""
        await self._close_all()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Client(_Client[LeasedTask]):
    """A client for threads: all threads of a process share one. Its methods are those of `AsyncClient`, and block."""

    _io = ThreadIO()
    _leased = LeasedTask

    enqueue = blocking(AsyncClient.enqueue)
    update = blocking(AsyncClient.update)
    wait = blocking(AsyncClient.wait)
    result = blocking(AsyncClient.result)
    cancel = blocking(AsyncClient.cancel)
    reschedule = blocking(AsyncClient.reschedule)
    get = blocking(AsyncClient.get)
    call = blocking(AsyncClient.call)
    close = blocking(AsyncClient.close)

    def lease(self, *queues: str, **options: Any) -> list[LeasedTask]:
        """As `AsyncClient.lease`."""
        return blocking(AsyncClient.lease)(self, *queues, **options)  # type: ignore[return-value]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
