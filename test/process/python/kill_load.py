"""Enqueues tasks until its input ends, then waits until each has ended, and says what it found as JSON.

    python kill_load.py <host:port>

Prints the number of acknowledged updates after each one.
"""

import collections
import json
import sys
import threading

import taskmaster

stopping = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stopping.set()), daemon=True).start()

with taskmaster.Client(sys.argv[1], timeout=60, max_attempts=1000) as client:
    sent = 0
    while not stopping.wait(0.01):
        # The node assigns the PIDs of `log`: an update that is applied twice leaves two.
        tasks = [taskmaster.new_task("kill#in", pid=f"{sent:06}"), taskmaster.new_task("kill#log", sent)]
        client.update(enqueue=tasks)
        sent += 1
        print(sent, flush=True)

    ended = collections.Counter()
    for at in range(sent):
        ended[client.wait("kill#in", f"{at:06}", timeout=120).outcome] += 1

    def taken(queue):
        found = []
        while tasks := client.lease(queue, max=1000, lease_duration=600):
            found += [task.data for task in tasks]
        return collections.Counter(found)

    logged, done = taken("kill#log"), taken("kill#done")
    expected = [f"{at:06}" for at in range(sent)]
    print(
        json.dumps(
            {
                "sent": sent,
                "ended": ended,
                "enqueuedTwice": [at for at, times in logged.items() if times > 1],
                "lost": [pid for pid in expected if done[pid] == 0],
                "completedTwice": [pid for pid, times in done.items() if times > 1],
                "left": len(client.lease("kill#in", "kill#in.dead")),
            }
        ),
        flush=True,
    )
