"""Plays the scenarios of test/conformance against a node. test/conformance/README.md describes them.

    python -m taskmaster.conformance HOST:PORT DIR [--asyncio]

Prints a line for each scenario. Ends with 1 if one fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import grpc

from . import AsyncClient, AsyncWorker, Client, Done, TaskMasterError, UnrecoverableError, Worker, new_task, retry_policy
from .calls import AsyncIO, ThreadIO
from .client import ms
from .v1 import inspection_pb2, tasks_pb2


class _Lost(grpc.RpcError):
    """What a client sees of a call whose connection breaks."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "the connection broke"

    def trailing_metadata(self) -> tuple:
        return ()


class _Losing:
    """Mixed into an `io`: loses answers of calls that the node has answered."""

    count = 0

    async def call(self, *args: Any) -> Any:
        reply = await super().call(*args)  # type: ignore[misc]
        if self.count > 0:
            self.count -= 1
            raise _Lost()
        return reply


class _LosingThreads(_Losing, ThreadIO):
    pass


class _LosingAsync(_Losing, AsyncIO):
    pass


class Mismatch(Exception):
    pass


class Scenario:
    """One run of a scenario, over the blocking client or that of asyncio."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self.client = client
        self.losing = _LosingAsync() if isinstance(client, AsyncClient) else _LosingThreads()
        client._io = self.losing
        self.group = f"conformance-{os.urandom(6).hex()}"
        self.leased: dict[str, Any] = {}
        self.worker: Any = None
        self.seen: dict[str, list[str]] = {}
        self.lock = threading.Lock()

    async def play(self, text: str) -> None:
        steps = steps_of(text)
        for at, verb, args, expected in steps:
            try:
                got: Any = ("=", await getattr(self, verb.replace("-", "_"))(**args))
            except TaskMasterError as error:
                got = ("!", error.reason)
            kind, value = expected or ("=", None)
            if got[0] != kind or (expected and not matches(value, got[1])):
                raise Mismatch(f"line {at}: {verb} {json.dumps(args)}\n  expected {kind} {value!r}\n  got      {got[0]} {got[1]!r}")
        if self.worker is not None:
            raise Mismatch("the scenario does not stop its worker")

    def name(self, queue: str) -> str:
        return f"{self.group}#{queue}"

    def task(self, queue: str, data: Any = None, delayMs: int = 0, timeLimitMs: int = 0, retry: dict | None = None, **more: Any) -> Any:
        policy = None if retry is None else retry_policy(retry["maxAttempts"], retry["backoffMs"] / 1000)
        return new_task(self.name(queue), data, delay=delayMs / 1000, time_limit=timeLimitMs / 1000, retry=policy, **more)

    def lease_of(self, pid: str, lease: str = "") -> Any:
        return self.leased[f"{lease}/{pid}"]

    async def do(self, call: Any) -> Any:
        """What a method returns: the blocking client has it already."""
        return await call if isinstance(self.client, AsyncClient) else call

    async def enqueue(self, **task: Any) -> Any:
        outcome = (await self.do(self.client.update(enqueue=[self.task(**task)]))).enqueued[0]
        result = tasks_pb2.EnqueueResult.Name(outcome.result).removeprefix("ENQUEUE_RESULT_").lower()
        return {"result": result, "leased": outcome.leased}

    async def update(self, enqueue: Any = (), complete: Any = (), release: Any = ()) -> None:
        named = [[self.lease_of(one["pid"], one.get("as", "")) for one in leased] for leased in (complete, release)]
        items = [[{"queue": one.queue, "pid": one.pid, "lease_token": one.lease_token} for one in leased] for leased in named]
        dequeues = [tasks_pb2.Dequeue(**item) for item in items[0]]
        releases = [tasks_pb2.Release(**item) for item in items[1]]
        tasks = [self.task(**task) for task in enqueue]
        await self.do(self.client.update(enqueue=tasks, dequeue=dequeues, release=releases))

    async def lease(self, queues: list[str], max: int = 1, leaseMs: int = 0, waitMs: int = 0, kinds: Any = None, **more: str) -> Any:
        options = {"max": max, "lease_duration": leaseMs / 1000, "wait": waitMs / 1000, "kinds": kinds}
        tasks = await self.do(self.client.lease(*map(self.name, queues), **options))
        for task in tasks:
            self.leased[f"{more.get('as', '')}/{task.pid.decode(errors='replace')}"] = task
        return [
            {
                "pid": task.pid.decode(errors="replace"),
                "data": task.data,
                "attempt": task.attempt,
                "headers": task.headers,
                "checkpoint": task.previous_checkpoint and task.previous_checkpoint.decode(),
                "progress": task.previous_progress,
            }
            for task in tasks
        ]

    async def complete(self, pid: str, result: Any = None, enqueue: Any = (), **more: str) -> None:
        task = self.lease_of(pid, more.get("as", ""))
        await self.do(task.complete(result, enqueue=[self.task(**one) for one in enqueue]))

    async def release(self, pid: str, error: str | None = None, delayMs: int | None = None, **more: Any) -> Any:
        options = {
            "delay": None if delayMs is None else delayMs / 1000,
            "refund_attempt": more.get("refund", False),
            "interrupted": more.get("interrupted", False),
            "dead_letter": more.get("deadLetter", False),
        }
        outcome = await self.do(self.lease_of(pid, more.get("as", "")).release(error, **options))
        return {"deadLetter": outcome.dead_letter_queue != ""}

    async def renew(self, pid: str, leaseMs: int = 0, checkpoint: str | None = None, progress: str | None = None, **more: str) -> None:
        task = self.lease_of(pid, more.get("as", ""))
        renew = tasks_pb2.Renew(
            queue=task.queue,
            pid=task.pid,
            lease_token=task.lease_token,
            lease_duration_ms=leaseMs or ms(task._lease.duration),
            checkpoint=None if checkpoint is None else checkpoint.encode(),
            progress=progress,
        )
        await self.do(self.client.update(renew=[renew]))

    async def cancel(self, queue: str, **more: Any) -> None:
        await self.do(self.client.cancel(self.name(queue), **more))

    async def reschedule(self, queue: str, delayMs: int = 0, **more: Any) -> None:
        await self.do(self.client.reschedule(self.name(queue), delay=delayMs / 1000, **more))

    async def wait(self, queue: str, pid: str, timeoutMs: int) -> Any:
        end = await self.do(self.client.wait(self.name(queue), pid, timeout=timeoutMs / 1000))
        return {"outcome": end.outcome, "result": end.result, "error": end.error}

    async def result(self, queue: str, pid: str, timeoutMs: int) -> Any:
        return await self.do(self.client.result(self.name(queue), pid, timeout=timeoutMs / 1000))

    async def get(self, queue: str, pids: list[str]) -> Any:
        states = inspection_pb2.TaskState
        return [
            {
                "state": states.Name(info.state).removeprefix("TASK_STATE_").lower().replace("_", "-"),
                "attempts": info.attempts,
                "interruptions": info.interruptions,
                "failures": [one.error.message if one.HasField("error") else None for one in info.failures],
            }
            for info in await self.do(self.client.get(self.name(queue), *pids))
        ]

    async def lose_answers(self, count: int) -> None:
        self.losing.count = count

    async def sleep(self, ms: int) -> None:
        if isinstance(self.client, AsyncClient):
            await asyncio.sleep(ms / 1000)
        else:
            time.sleep(ms / 1000)

    async def start_worker(
        self, queue: str, tasks: dict[str, list[dict]], concurrency: int = 1, leaseMs: int = 0, backoffMs: int | None = None
    ) -> None:
        def plan_of(task: Any) -> tuple[str, int, dict]:
            pid = task.pid.decode()
            plans = tasks.get(pid, [{}])
            with self.lock:
                seen = self.seen.setdefault(pid, [])
                seen.append("")
                return pid, len(seen) - 1, plans[min(len(seen), len(plans)) - 1]

        def end(task: Any, plan: dict) -> Done:
            if "fail" in plan:
                raise ValueError(plan["fail"])
            if "unrecoverable" in plan:
                raise UnrecoverableError(plan["unrecoverable"])
            return Done(plan.get("result"), [self.task(**one) for one in plan.get("enqueue", ())])

        def handle(task: Any) -> Done:
            pid, at, plan = plan_of(task)
            time.sleep((plan.get("block", 0) + plan.get("sleep", 0)) / 1000)
            if plan.get("untilStopped"):
                task.stopped(30)
                self.seen[pid][at] = task.stop_reason.reason
                task.raise_if_stopped()
            if "checkpoint" in plan:
                task.checkpoint(plan["checkpoint"].encode())
            return end(task, plan)

        async def handle_async(task: Any) -> Done:
            pid, at, plan = plan_of(task)
            time.sleep(plan.get("block", 0) / 1000)
            await asyncio.sleep(plan.get("sleep", 0) / 1000)
            if plan.get("untilStopped"):
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    self.seen[pid][at] = task.stop_reason.reason
                    raise
            if "checkpoint" in plan:
                await task.checkpoint(plan["checkpoint"].encode())
            return end(task, plan)

        options: dict[str, Any] = {"concurrency": concurrency, "lease_duration": leaseMs / 1000, "on_error": lambda *_: None}
        if backoffMs is not None:
            options["backoff"] = lambda *_: backoffMs / 1000
        if isinstance(self.client, AsyncClient):
            self.worker = AsyncWorker(self.client, self.name(queue), handle_async, **options)
        else:
            self.worker = Worker(self.client, self.name(queue), handle, **options)
        self.worker.start()

    async def stop_worker(self, timeoutMs: int) -> Any:
        worker, self.worker = self.worker, None
        await self.do(worker.stop(timeoutMs / 1000))
        return self.seen


def steps_of(text: str) -> list[tuple[int, str, dict, tuple[str, Any] | None]]:
    steps: list[tuple[int, str, dict, tuple[str, Any] | None]] = []
    for at, line in enumerate(text.splitlines(), 1):
        head, _, rest = line.partition(" ")
        if head == "" or head.startswith("#"):
            continue
        if head in ("=", "!"):
            steps[-1] = (*steps[-1][:3], (head, json.loads(rest) if head == "=" else rest))
        else:
            steps.append((at, head, json.loads(rest), None))
    return steps


def matches(expected: Any, got: Any) -> bool:
    if isinstance(expected, dict):
        return isinstance(got, dict) and all(matches(value, got.get(key)) for key, value in expected.items())
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(matches, expected, got))
    return type(expected) is type(got) and expected == got


async def play_async(endpoint: str, text: str) -> None:
    async with AsyncClient(endpoint) as client:
        await Scenario(client).play(text)


def play_blocking(endpoint: str, text: str) -> None:
    with Client(endpoint) as client:
        try:
            Scenario(client).play(text).send(None)
        except StopIteration:
            pass


def main(endpoint: str, folder: str, *flags: str) -> int:
    failed = 0
    for path in sorted(Path(folder).glob("*.txt")):
        text = path.read_text()
        try:
            if "--asyncio" in flags:
                asyncio.run(play_async(endpoint, text))
            else:
                play_blocking(endpoint, text)
            print(f"ok {path.name}", flush=True)
        except Mismatch as mismatch:
            failed = 1
            print(f"FAILED {path.name}, {mismatch}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
