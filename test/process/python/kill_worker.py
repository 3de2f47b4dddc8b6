"""A worker that a test kills. For each task it notes the run, and completes it with a follow-up task in one update.

    python kill_worker.py <host:port> [--asyncio]

Prints `ready`, then a line for each handler that begins.
"""

import asyncio
import sys

import taskmaster

ENDPOINT = sys.argv[1]
OPTIONS = {"concurrency": 8, "lease_duration": 1, "on_error": lambda *_: None, "backoff": lambda *_: 0.05}


def begin(task):
    print(task.pid.decode(), flush=True)


def done(task):
    # A PID that the node assigns: two completions would leave two follow-up tasks.
    return taskmaster.Done(result=task.attempt, enqueue=[taskmaster.new_task("kill#done", task.pid.decode())])


def handle(task):
    begin(task)
    task.stopped(0.01)
    return done(task)


async def handle_async(task):
    begin(task)
    await asyncio.sleep(0.01)
    return done(task)


async def work():
    async with taskmaster.AsyncClient(ENDPOINT) as client:
        await taskmaster.AsyncWorker(client, "kill#in", handle_async, **OPTIONS).run()


if "--asyncio" in sys.argv:
    print("ready", flush=True)
    asyncio.run(work())
else:
    print("ready", flush=True)
    with taskmaster.Client(ENDPOINT) as client:
        taskmaster.Worker(client, "kill#in", handle, **OPTIONS).run()
