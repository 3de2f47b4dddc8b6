"""Leases of tasks as far as the client knows them, and the thread that renews and watches those of workers."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import grpc

from . import errors
from .calls import Connection, Stop, group_of
from .errors import TaskMasterError
from .v1 import tasks_pb2, waits_pb2

DEFAULT_LEASE = 30.0
# Part of the lease after which it is renewed. Two more attempts fit before its end.
_RENEW_AT = 1 / 3
# Leases due within this part of their duration are renewed too, so that one update renews many.
_JOIN_WITHIN = 1 / 12
_BATCH = 500
_RETRY_INITIAL = 0.05
_MOST_TIMEOUT = 10.0
# Tasks are watched from this age on, so that those that end sooner cost nothing. With the time between looks: in a second.
_WATCH_AFTER = 0.4
_LOOK = 0.5
_WATCH_FOR = 60.0
# Every task that ends by itself ends a request, and the next one is about all others again.
_WATCH_PAUSE = 0.1
_WATCH_RETRY = 1.0
# One connection may have 1,000 waiting calls. The tasks of further groups hear of a cancellation when they are renewed.
_MOST_WATCHES = 500


class Lease:
    """
    A lease. Its times are those of `time.monotonic()`. They are not later than at the node, unless the answer of a request that
    waited was on its way for more than a tenth of the lease, or a second. After its end `stop` is set, and nothing else changes:
    a late worker may still complete its task, and the node decides.
    """

    def __init__(self, task: tasks_pb2.LeasedTask, requested: float, sent_at: float, received_at: float) -> None:
        self.queue = task.queue
        self.pid = task.pid
        self.token = task.lease_token
        self.duration = task.lease_duration_ms / 1000 or requested or DEFAULT_LEASE
        self.limit = task.time_limit_ms / 1000 or None
        begun_at = max(sent_at, received_at - min(1.0, self.duration / 10))
        self.limit_at = begun_at + self.limit if self.limit else float("inf")
        self.ends_at = min(begun_at + self.duration, self.limit_at)
        #: Set when the work should end: the lease is lost or over, the time limit is reached, or the task is cancelled.
        self.stop = Stop()
        self.lost: TaskMasterError | None = None
        self.cancelled: TaskMasterError | None = None
        self.settled = ""
        self._lock = threading.Lock()

    @property
    def held(self) -> bool:
        return self.lost is None and not self.settled

    @property
    def over_time(self) -> TaskMasterError | None:
        """The error of an attempt that has reached its time limit."""
        if self.limit is None or time.monotonic() < self.limit_at:
            return None
        message = f"the attempt exceeded its time limit of {self.limit * 1000:.0f} ms"
        return errors.make_error(message, "TIME_LIMIT_EXCEEDED", grpc.StatusCode.DEADLINE_EXCEEDED)

    def settle(self, how: str) -> None:
        """Before the update that ends the lease is sent. Fails if another one was."""
        with self._lock:
            if self.lost is not None:
                raise self.lost
            if self.settled:
                raise RuntimeError(f"the task was {self.settled} before")
            self.settled = how

    def unsettle(self, error: TaskMasterError) -> None:
        """The update has failed."""
        self.settled = ""
        if isinstance(error, (errors.LeaseLostError, errors.TaskNotFoundError)):
            self.lose(error)

    def lose(self, error: TaskMasterError) -> None:
        if not self.settled:
            self.lost = self.lost or error
            self.stop.set(error)

    def cancel(self, reason: str) -> None:
        """The worker keeps the lease, so that it can end its work in order."""
        if self.cancelled is not None or not self.held:
            return
        message = f"the task was cancelled: {reason}" if reason else "the task was cancelled"
        details = {"metadata": {"queue": self.queue, "cancel_reason": reason}}
        self.cancelled = errors.make_error(message, "TASK_CANCELLED", grpc.StatusCode.CANCELLED, **details)
        self.stop.set(self.cancelled)

    def expire(self) -> None:
        message = "the lease has expired"
        self.stop.set(self.over_time or errors.make_error(message, "LEASE_EXPIRED", grpc.StatusCode.FAILED_PRECONDITION))


class _Kept:
    def __init__(self, lease: Lease, keep_until: float) -> None:
        self.lease = lease
        self.keep_until = keep_until
        self.watch_at = time.monotonic() + _WATCH_AFTER
        self.watch: _Watch | None = None
        self.due_at = lease.ends_at - lease.duration * (1 - _RENEW_AT)
        self.failures = 0
        self.sending = False
        self.alone = False

    def next_at(self) -> float:
        """When something is to be done about it."""
        if self.final:
            return self.lease.ends_at
        ends_at = self.lease.ends_at if self.lease.stop.reason is None else float("inf")
        return min(ends_at, float("inf") if self.sending else self.due_at)

    @property
    def final(self) -> bool:
        """Whether it is renewed no more."""
        return self.lease.ends_at >= self.lease.limit_at or time.monotonic() >= self.keep_until


class _Watch:
    """A request for tasks of one group, again and again: it ends when one of them is cancelled, or its lease is lost."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.leases: dict[Lease, None] = {}
        #: When it is sent. Infinite: it waits for its answer, or the node has refused it for good.
        self.ask_at = 0.0
        self.asked: list[Lease] = []
        self.call: Any = None


class Keeper:
    """
    Renews the leases of workers on a thread of its own, so that handlers and event loops that are busy keep their tasks. Renewals
    say that a task was cancelled, or that its lease is lost. Longer tasks hear of it at once: the keeper waits for it, too.
    """

    def __init__(self, connection: Connection) -> None:
        #: Over `ThreadIO`.
        self._connection = connection
        self._kept: dict[Lease, _Kept] = {}
        self._watches: list[_Watch] = []
        self._look_at = float("inf")
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def keep(self, leases: list[Lease], max_lease: float) -> None:
        """Renews leases until they are forgotten, refused, at their time limit, or `max_lease` seconds are over."""
        until = time.monotonic() + max_lease
        with self._changed:
            self._kept.update((lease, _Kept(lease, until)) for lease in leases)
            self._look_at = min(self._look_at, time.monotonic() + _LOOK)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="taskmaster-leases", daemon=True)
                self._thread.start()
            self._changed.notify()

    def forget(self, lease: Lease) -> None:
        with self._changed:
            self._drop(lease)

    def _drop(self, lease: Lease) -> None:
        kept = self._kept.pop(lease, None)
        watch = kept.watch if kept else None
        if watch is None:
            return
        watch.leases.pop(lease, None)
        if not watch.leases and watch in self._watches:
            self._watches.remove(watch)
            self._take_back(watch)

    @staticmethod
    def _take_back(watch: _Watch) -> None:
        """Its answer counts no more, and it is not sent again before it has a time."""
        watch.asked, watch.ask_at = [], float("inf")
        if watch.call is not None:
            watch.call.cancel()
            watch.call = None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._kept.clear()
            for watch in self._watches:
                self._take_back(watch)
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                now = time.monotonic()
                self._expire(now)
                self._look(now)
                batches = self._due(now)
                asks = [watch for watch in self._watches if watch.ask_at <= now]
                if not batches and not asks:
                    wake_at = min((kept.next_at() for kept in self._kept.values()), default=float("inf"))
                    wake_at = min(wake_at, self._look_at, *(watch.ask_at for watch in self._watches))
                    self._changed.wait(max(0.001, wake_at - now) if wake_at < float("inf") else None)
                    continue
            for batch in batches:
                self._send(batch)
            for watch in asks:
                self._ask(watch)

    def _expire(self, now: float) -> None:
        for kept in list(self._kept.values()):
            if now < kept.lease.ends_at:
                continue
            kept.lease.expire()
            # The end at the node may be later. Only its refusal ends the lease.
            if kept.final:
                self._drop(kept.lease)

    def _due(self, now: float) -> list[list[_Kept]]:
        groups: dict[object, list[_Kept]] = {}
        if not any(self._is_due(kept, now) for kept in self._kept.values()):
            return []
        for kept in self._kept.values():
            if self._is_due(kept, now + kept.lease.duration * _JOIN_WITHIN):
                groups.setdefault(kept if kept.alone else group_of(kept.lease.queue), []).append(kept)
        return [kept[at : at + _BATCH] for kept in groups.values() for at in range(0, len(kept), _BATCH)]

    @staticmethod
    def _is_due(kept: _Kept, now: float) -> bool:
        return not kept.sending and not kept.final and kept.due_at <= now

    def _send(self, batch: list[_Kept]) -> None:
        leases = [kept.lease for kept in batch]
        request = tasks_pb2.UpdateTasksRequest(
            renew=[
                tasks_pb2.Renew(
                    queue=lease.queue, pid=lease.pid, lease_token=lease.token, lease_duration_ms=round(lease.duration * 1000)
                )
                for lease in leases
            ]
        )
        now = time.monotonic()
        for kept in batch:
            kept.sending = True
        # After an attempt without an answer there is time for another one.
        timeout = min(_MOST_TIMEOUT, *(lease.duration * _RENEW_AT for lease in leases))
        group = group_of(leases[0].queue)
        address = self._connection._address(group)
        try:
            method, metadata = self._connection._method(address, "UpdateTasks"), self._connection._metadata()
        except Exception as failure:  # The client was closed, or the function of the token has failed.
            self._answered(batch, now, (), errors.make_error(str(failure), "UNAVAILABLE", retryable=True))
            return
        call = method.future(request, timeout=timeout, metadata=metadata)
        call.add_done_callback(lambda done: self._done(batch, now, done, group, address))

    def _done(self, batch: list[_Kept], sent_at: float, done: Any, group: str, address: str) -> None:
        """On a thread of gRPC."""
        try:
            self._answered(batch, sent_at, done.result().renewed, None)
        except grpc.RpcError as failure:
            error = errors.error_of(failure)
            self._connection._learn(error, group, address)
            self._answered(batch, sent_at, (), error)

    def _answered(self, batch: list[_Kept], sent_at: float, outcomes: Any, error: TaskMasterError | None) -> None:
        cancelled: list[tuple[Lease, str]] = []
        with self._changed:
            for kept in batch:
                kept.sending = False
            if error is not None:
                self._failed(batch, error)
            for kept, outcome in zip(batch, outcomes):
                lease = kept.lease
                lease.ends_at = min(sent_at + lease.duration, lease.limit_at)
                kept.due_at = sent_at + lease.duration * _RENEW_AT
                kept.failures = 0
                if outcome.HasField("cancel_reason"):
                    cancelled.append((lease, outcome.cancel_reason))
            self._changed.notify()
        for lease, reason in cancelled:
            lease.cancel(reason)

    def _failed(self, batch: list[_Kept], error: TaskMasterError) -> None:
        """An update is applied entirely or not at all, so one lost lease refuses the renewals of all others."""
        now = time.monotonic()
        at_fault = {item.index for item in error.items if item.kind == tasks_pb2.ITEM_KIND_RENEW}
        for at, kept in enumerate(batch):
            if at in at_fault or not (at_fault or error.retryable or error.maybe_applied or len(batch) > 1):
                self._drop(kept.lease)
                if error.reason == "LEASE_EXPIRED":
                    kept.lease.expire()
                else:
                    kept.lease.lose(error)
            elif at_fault or error.reason == "NOT_HOLDER":
                kept.due_at = now
            elif error.retryable or error.maybe_applied:
                kept.failures += 1
                bound = min(kept.lease.duration / 6, _RETRY_INITIAL * 2 ** min(kept.failures - 1, 20))
                kept.due_at = now + (error.retry_delay or 0) + bound * (0.5 + random.random() / 2)
            else:
                # The refusal names no lease. Each by itself finds it.
                kept.alone = True
                kept.due_at = now

    def _look(self, now: float) -> None:
        """Adds the tasks that have become old enough to the requests."""
        if now < self._look_at:
            return
        self._look_at = now + _LOOK if self._kept else float("inf")
        roomy = {one.group: one for one in self._watches if len(one.leases) < _BATCH}
        for kept in self._kept.values():
            lease = kept.lease
            if kept.watch is not None or kept.watch_at > now or lease.stop.reason is not None:
                continue
            group = group_of(lease.queue)
            watch = roomy.get(group)
            if watch is None:
                if len(self._watches) >= _MOST_WATCHES:
                    continue
                watch = roomy[group] = _Watch(group)
                self._watches.append(watch)
            kept.watch = watch
            watch.leases[lease] = None
            if len(watch.leases) >= _BATCH:
                del roomy[group]
            self._take_back(watch)
            watch.ask_at = now

    def _ask(self, watch: _Watch) -> None:
        with self._changed:
            if watch.ask_at > time.monotonic():
                return  # It was taken back.
            asked = watch.asked = list(watch.leases)
            watch.ask_at = float("inf")
            tasks = [waits_pb2.AwaitedTask(queue=one.queue, pid=one.pid, lease_token=one.token) for one in asked]
            request = waits_pb2.WaitForTasksRequest(tasks=tasks, wait_ms=round(_WATCH_FOR * 1000))
            address = self._connection._address(watch.group)
            try:
                method, metadata = self._connection._method(address, "WaitForTasks"), self._connection._metadata()
            except Exception:  # The client was closed, or the function of the token has failed.
                watch.ask_at = time.monotonic() + _WATCH_RETRY
                return
            call = watch.call = method.future(request, timeout=_WATCH_FOR + _MOST_TIMEOUT, metadata=metadata)
        call.add_done_callback(lambda done: self._told(watch, asked, done, address))

    def _told(self, watch: _Watch, asked: list[Lease], done: Any, address: str) -> None:
        """On a thread of gRPC."""
        ended, again = (), _WATCH_PAUSE
        try:
            ended = done.result().ended
        except grpc.FutureCancelledError:
            return
        except grpc.RpcError as failure:
            error = errors.error_of(failure)
            self._connection._learn(error, watch.group, address)
            # A node that does not answer may do so later. One that refuses to wait will do so again.
            late = error.code is grpc.StatusCode.DEADLINE_EXCEEDED
            again = _WATCH_RETRY if error.retryable or late else float("inf")
        told: list[tuple[Lease, waits_pb2.EndedTask]] = []
        with self._changed:
            if watch.asked is not asked:
                return
            for end in ended:
                lease = asked[end.task]
                # A cancelled task is renewed on, until its handler has ended.
                watch.leases.pop(lease, None)
                told.append((lease, end))
            if watch.leases:
                watch.ask_at = time.monotonic() + again
            else:
                self._watches.remove(watch)
            self._changed.notify()
        for lease, end in told:
            _tell(lease, end)


def _tell(lease: Lease, end: waits_pb2.EndedTask) -> None:
    task = f"{lease.pid!r} of {lease.queue}"
    status, details = grpc.StatusCode, {"metadata": {"queue": lease.queue}}
    if end.outcome == waits_pb2.TASK_OUTCOME_CANCEL_REQUESTED:
        lease.cancel(end.cancel_reason)
    elif end.outcome == waits_pb2.TASK_OUTCOME_LEASE_LOST:
        message = f"the lease on task {task} is not current any more"
        lease.lose(errors.make_error(message, "LEASE_LOST", status.FAILED_PRECONDITION, **details))
    else:
        # Its own completion, too, ends a task. The lease ignores this if it is being completed.
        lease.lose(errors.make_error(f"task {task} is not in the queue any more", "TASK_NOT_FOUND", status.NOT_FOUND, **details))
