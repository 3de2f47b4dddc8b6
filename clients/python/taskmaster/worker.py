"""Workers: they lease tasks, run a handler for each, and complete them, or release them after a failure."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc

from . import errors
from .calls import Stop, finish
from .client import AsyncClient, AsyncLeasedTask, Client, LeasedTask, ms
from .errors import TaskMasterError, UnrecoverableError
from .v1 import tasks_pb2

log = logging.getLogger("taskmaster")

_LEASE_RETRY_INITIAL = 0.1
_LEASE_RETRY_MAX = 10.0
# How long handlers may run after the time of a stop is over, and how long releases may take then, in seconds.
_ABORTED = 1.0
_GIVE_BACK = 2.0


@dataclass(frozen=True)
class Done:
    """What a handler may return: a result, and follow-up tasks of the same group that are enqueued with the completion."""

    result: Any = None
    enqueue: Iterable[tasks_pb2.Enqueue] = ()
    #: How long the node keeps the result, in seconds. None: as the queue says, or an hour.
    result_retention: float | None = None


class _Signal:
    """Wakes what waits for it, from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.clear, self.set = self._event.clear, self._event.set

    async def wait(self, seconds: float | None = None) -> bool:
        return self._event.wait(seconds)


class _AsyncSignal:
    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.clear = self._event.clear

    def set(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            pass  # The loop is closed, so nothing waits.

    async def wait(self, seconds: float | None = None) -> bool:
        try:
            return await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False


class _Worker:
    """What both workers do. Written as coroutines, which never suspend in that of threads (`calls.finish`)."""

    def __init__(
        self,
        client: Any,
        queues: str | Sequence[str],
        handler: Callable[[Any], Any],
        *,
        concurrency: int = 1,
        lease_duration: float = 0,
        max_lease: float = 3600,
        wait: float = 30,
        kinds: Sequence[str] | None = None,
        worker_label: str = "",
        backoff: Callable[[BaseException, Any], float | None] | None = None,
        on_error: Callable[[BaseException, Any], None] | None = None,
    ) -> None:
        """
        :param queues: one queue, or several: tasks come from the first one, then from the second.
        :param handler: is called with each task. What it raises fails the attempt. It returns None or `Done`.
        :param concurrency: handlers that run at the same time.
        :param lease_duration: in seconds. Leases are renewed after a third of it. 0: as the queue says, or 30 s.
        :param max_lease: longest time for which a lease is renewed. It bounds handlers that hang.
        :param wait: how long one request waits for tasks.
        :param kinds: only tasks of these kinds.
        :param worker_label: shown by `taskmaster peek`.
        :param backoff: the delay after a failed attempt. None: as the retry policy of the task says.
        :param on_error: called with each error, and its task or None. Without it errors are logged as `taskmaster`.
        """
        if not isinstance(concurrency, int) or concurrency < 1:
            raise TypeError("concurrency: must be a whole number from 1")
        if not callable(handler):
            raise TypeError("handler: must be a function of a task")
        self._client = client
        self._queues = [queues] if isinstance(queues, str) else list(queues)
        self._handler = handler
        self._concurrency = concurrency
        self._lease_duration = lease_duration
        self._max_lease = max_lease
        self._wait = wait
        self._kinds = kinds
        self._worker_label = worker_label
        self._backoff = backoff
        self._on_error = on_error
        self._leasing = Stop()
        self._give_up = Stop()
        self._active: set[Any] = set()
        self._fatal: TaskMasterError | None = None

    _changed: Any
    _ended: Any

    def _start_handler(self, work: Coroutine[Any, Any, None]) -> None:
        raise NotImplementedError

    async def _call_handler(self, task: Any) -> Any:
        raise NotImplementedError

    def request_stop(self) -> None:
        """Leases no more. Returns at once, so signal handlers may call it."""
        self._leasing.set(errors.cancelled("the worker was stopped"))
        if hasattr(self, "_changed"):
            self._changed.set()

    def _report(self, error: BaseException, task: Any = None) -> None:
        if self._on_error is None:
            log.warning("%s: %s", f"task {task.pid!r} of {task.queue}" if task else "lease", error, exc_info=error)
            return
        try:
            self._on_error(error, task)
        except Exception:
            log.exception("on_error has failed")

    def _request(self, places: int) -> tasks_pb2.LeaseTasksRequest:
        return tasks_pb2.LeaseTasksRequest(
            queues=self._queues,
            max_tasks=places,
            lease_duration_ms=ms(self._lease_duration),
            wait_ms=ms(self._wait),
            kinds=None if self._kinds is None else tasks_pb2.LeaseKinds(patterns=self._kinds),
            worker_label=self._worker_label,
        )

    async def _feed(self) -> None:
        """Leases tasks until the stop, then waits until the handlers have ended."""
        failures = 0
        while self._leasing.reason is None:
            self._changed.clear()
            places = self._concurrency - len(self._active)
            if places < 1:
                await self._changed.wait()
                continue
            try:
                tasks = await self._client._lease(self._request(places), None, self._leasing)
            except TaskMasterError as error:
                if self._leasing.reason is not None:
                    break
                self._report(error)
                # The request is wrong, or the client is closed: a repetition would fail, too.
                if error.code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.CANCELLED):
                    self._fatal = error
                    break
                failures += 1
                bound = min(_LEASE_RETRY_MAX, _LEASE_RETRY_INITIAL * 2 ** min(failures - 1, 20))
                await self._client._io.sleep(bound * random.random(), self._leasing)
                continue
            failures = 0
            if self._leasing.reason is not None:
                for task in tasks:
                    await self._give_back(task, interrupted=False)
                break
            self._client._keeper.keep([task._lease for task in tasks], self._max_lease)
            for task in tasks:
                self._active.add(task)
                self._start_handler(self._handle(task))
        while self._active:
            self._changed.clear()
            if self._active:
                await self._changed.wait()
        self._ended.set()

    async def _handle(self, task: Any) -> None:
        try:
            try:
                returned = await self._call_handler(task)
                if returned is not None and not isinstance(returned, Done):
                    raise TypeError(f"a handler returns None or Done, not {type(returned).__name__}: it would be lost")
            # In a thread, sys.exit() ends nothing but the handler.
            except (Exception, asyncio.CancelledError, SystemExit, KeyboardInterrupt) as error:
                await self._fail(task, error)
            else:
                await self._complete(task, returned or Done())
        except Exception as error:
            self._report(error, task)
        finally:
            self._client._keeper.forget(task._lease)
            self._active.discard(task)
            self._changed.set()

    async def _complete(self, task: Any, done: Done) -> None:
        lease = task._lease
        if not lease.held:
            if lease.settled and (done.result is not None or done.enqueue):
                self._report(RuntimeError("the handler has ended its task, so what it returns has no effect"), task)
            elif lease.lost is not None:
                self._report(lease.lost, task)
            return
        try:
            await task._complete(done.result, done.enqueue, done.result_retention, None)
        except TaskMasterError as error:
            # Follow-up tasks that are refused are a failure of the handler. After other errors the lease ends by itself.
            if error.code is grpc.StatusCode.INVALID_ARGUMENT:
                await self._fail(task, error)
            else:
                self._report(error, task)
        except Exception as error:
            await self._fail(task, error)  # The result cannot be encoded.

    async def _fail(self, task: Any, error: BaseException) -> None:
        lease = task._lease
        over_time = lease.over_time
        if lease.cancelled is None and self._give_up.reason is None:
            self._report(error if isinstance(error, UnrecoverableError) or over_time is None else over_time, task)
        if not lease.held:
            return
        try:
            if lease.cancelled is not None:
                # The node removes a cancelled task.
                await task._release(None, None, False, False, False, None)
            elif self._give_up.reason is not None:
                await self._give_back(task, interrupted=True)
            elif isinstance(error, UnrecoverableError):
                await task._release(error, None, False, False, True, None)
            else:
                await task._release(over_time or error, self._delay(error, task), False, False, False, None)
        except TaskMasterError as refused:
            # A lost task cannot be released. At the time limit the attempt has failed at the node, too.
            if lease.lost is None and over_time is None:
                self._report(refused, task)

    def _delay(self, error: BaseException, task: Any) -> float | None:
        try:
            delay = None if self._backoff is None else self._backoff(error, task)
            return None if delay is None else float(delay)
        except Exception as mistake:
            self._report(mistake, task)
            return None

    async def _give_back(self, task: Any, interrupted: bool) -> None:
        """Releases a task whose attempt does not count. If this fails, it is available when its lease ends."""
        try:
            await task._release(None, None if interrupted else 0, True, interrupted, False, _GIVE_BACK)
        except TaskMasterError:
            log.info("task %r of %s is available when its lease ends", task.pid, task.queue)

    async def _stop(self, timeout: float) -> None:
        self.request_stop()
        if await self._ended.wait(timeout):
            return
        self._give_up.set(errors.cancelled("the worker was stopped"))
        for task in list(self._active):
            task._lease.stop.set(errors.cancelled("the worker was stopped"))
        if await self._ended.wait(_ABORTED):
            return
        for task in list(self._active):
            if task._lease.held:
                self._client._keeper.forget(task._lease)
                await self._give_back(task, interrupted=True)


class Worker(_Worker):
    """
    Runs handlers in threads. A handler learns by `task.stopped()` or `task.raise_if_stopped()` that its work should end.

        with Worker(client, "shop#mail", send) as worker:
            ...                              # or Worker(client, "shop#mail", send).run()
    """

    def __init__(self, client: Client, queues: str | Sequence[str], handler: Callable[[LeasedTask], Done | None], **options: Any):
        super().__init__(client, queues, handler, **options)
        if not isinstance(client, Client) or inspect.iscoroutinefunction(handler):
            raise TypeError("a Worker has a Client and a function; AsyncWorker is for an AsyncClient and an async function")
        self._changed = _Signal()
        self._ended = _Signal()
        self._pool: ThreadPoolExecutor | None = None
        self._feeding: threading.Thread | None = None

    def _start_handler(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._pool is not None
        self._pool.submit(finish, work)

    async def _call_handler(self, task: LeasedTask) -> Any:
        return self._handler(task)

    def start(self) -> None:
        """Begins to lease tasks. A worker starts once."""
        if self._feeding is not None:
            raise RuntimeError("the worker was started before")
        self._pool = ThreadPoolExecutor(self._concurrency, "taskmaster-handler")
        self._feeding = threading.Thread(target=lambda: finish(self._feed()), name="taskmaster-worker", daemon=True)
        self._feeding.start()

    def stop(self, timeout: float = 30) -> None:
        """
        Leases no more, and waits for running handlers. After `timeout` seconds it tells them to stop; a second later it releases
        their tasks as interrupted, so that these attempts do not count. The threads of handlers that go on then stay.
        """
        if self._feeding is None:
            return
        finish(self._stop(timeout))
        if self._pool is not None:
            self._pool.shutdown(wait=False)

    def run(self, *, signals: Iterable[int] = (signal.SIGTERM, signal.SIGINT), stop_timeout: float = 30) -> None:
        """Works until one of the signals comes, or `request_stop` is called. Signals are those of the main thread only."""
        handlers = {}
        if threading.current_thread() is threading.main_thread():
            handlers = {one: signal.signal(one, lambda *_: self.request_stop()) for one in signals}
        try:
            self.start()
            assert self._feeding is not None
            while self._leasing.reason is None and self._feeding.is_alive():
                self._leasing.wait(0.2)
            self.stop(stop_timeout)
        finally:
            for one, before in handlers.items():
                signal.signal(one, before)
        if self._fatal is not None:
            raise self._fatal

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class AsyncWorker(_Worker):
    """
    Runs handlers as tasks of asyncio. When the work of a handler should end, its task is cancelled, and `task.stop_reason` says
    why. Leases are renewed on a thread of their own, so a handler that blocks the loop keeps its task.

        async with AsyncWorker(client, "shop#mail", send, concurrency=100):
            ...                              # or await AsyncWorker(client, "shop#mail", send).run()
    """

    def __init__(
        self,
        client: AsyncClient,
        queues: str | Sequence[str],
        handler: Callable[[AsyncLeasedTask], Awaitable[Done | None]],
        **options: Any,
    ):
        super().__init__(client, queues, handler, **options)
        if not isinstance(client, AsyncClient):
            raise TypeError("an AsyncWorker has an AsyncClient and an async function; Worker is for a Client and a function")
        self._running: set[asyncio.Task] = set()
        self._feeding: asyncio.Task | None = None

    def _start_handler(self, work: Coroutine[Any, Any, None]) -> None:
        running = asyncio.create_task(work)
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def _call_handler(self, task: AsyncLeasedTask) -> Any:
        loop = asyncio.get_running_loop()
        handling = asyncio.ensure_future(self._handler(task))
        stop = task._lease.stop
        forget = stop.on_set(lambda: loop.call_soon_threadsafe(handling.cancel))
        try:
            return await handling
        except asyncio.CancelledError:
            if stop.reason is None:
                raise
            raise stop.reason from None
        finally:
            forget()

    def start(self) -> None:
        """Begins to lease tasks, in the running event loop. A worker starts once."""
        if self._feeding is not None:
            raise RuntimeError("the worker was started before")
        self._changed = _AsyncSignal()
        self._ended = _AsyncSignal()
        self._feeding = asyncio.create_task(self._feed())

    async def stop(self, timeout: float = 30) -> None:
        """As `Worker.stop`: handlers that have not ended after `timeout` seconds are cancelled."""
        if self._feeding is not None:
            await self._stop(timeout)

    async def run(self, *, signals: Iterable[int] = (signal.SIGTERM, signal.SIGINT), stop_timeout: float = 30) -> None:
        """Works until one of the signals comes, `request_stop` is called, or its task is cancelled."""
        loop = asyncio.get_running_loop()
        handled = list(signals) if threading.current_thread() is threading.main_thread() else []
        for one in handled:
            loop.add_signal_handler(one, self.request_stop)
        try:
            self.start()
            stopping = asyncio.Event()
            forget = self._leasing.on_set(lambda: loop.call_soon_threadsafe(stopping.set))
            stopped = asyncio.create_task(stopping.wait())
            try:
                await asyncio.wait({self._feeding, stopped}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                forget()
                stopped.cancel()
                await self.stop(stop_timeout)
        finally:
            for one in handled:
                loop.remove_signal_handler(one)
        if self._fatal is not None:
            raise self._fatal

    async def __aenter__(self) -> AsyncWorker:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
