"""Uses a node the way a program in another language does: with plain generated stubs.

    python every_call.py <folder of the stubs> <host:port> <samples>

The samples are JSON: by the name of each method a valid request in Base64. So a method without a scenario is called, too.
Prints the methods it has called as JSON. Fails with a traceback.
"""

import base64
import json
import queue
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])

import grpc
from google.protobuf import descriptor_pool, message_factory
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status
from taskmaster.v1 import bulk_pb2 as b
from taskmaster.v1 import events_pb2 as e
from taskmaster.v1 import inspection_pb2 as i
from taskmaster.v1 import queues_pb2 as q
from taskmaster.v1 import schedules_pb2 as c
from taskmaster.v1 import service_pb2
from taskmaster.v1 import service_pb2_grpc
from taskmaster.v1 import stream_pb2 as s
from taskmaster.v1 import tasks_pb2 as t
from taskmaster.v1 import topics_pb2 as p
from taskmaster.v1 import waits_pb2 as w

SERVICE = "taskmaster.v1.TaskMasterService"
TIMEOUT = 20
called = set()


class Recording(grpc.UnaryUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    def _pass_on(self, proceed, details, request):
        called.add(details.method)
        return proceed(details, request)

    intercept_unary_unary = _pass_on
    intercept_stream_stream = _pass_on


channel = grpc.insecure_channel(sys.argv[2])
stub = service_pb2_grpc.TaskMasterServiceStub(grpc.intercept_channel(channel, Recording()))


def update(**lists):
    return stub.UpdateTasks(t.UpdateTasksRequest(**lists), timeout=TIMEOUT)


def lease(*queues, **options):
    request = t.LeaseTasksRequest(queues=queues, **{"max_tasks": 10, "lease_duration_ms": 60_000, **options})
    return stub.LeaseTasks(request, timeout=TIMEOUT).tasks


def stats(name):
    return stub.GetQueueStats(q.GetQueueStatsRequest(queues=[name]), timeout=TIMEOUT).queues[0]


def refusal(call):
    """The status code and the details of a call that must be refused, by the names of their types."""
    try:
        call()
    except grpc.RpcError as error:
        status = rpc_status.from_call(error)
        assert status is not None, f"no google.rpc.Status beside {error}"
        details = {}
        for packed in status.details:
            name = packed.TypeName()
            known = {
                "google.rpc.ErrorInfo": error_details_pb2.ErrorInfo,
                "google.rpc.BadRequest": error_details_pb2.BadRequest,
                "google.rpc.RetryInfo": error_details_pb2.RetryInfo,
                "taskmaster.v1.UpdateRefused": t.UpdateRefused,
            }[name]()
            assert packed.Unpack(known)
            details[name] = known
        assert details["google.rpc.ErrorInfo"].domain == "taskmaster"
        return error.code(), details
    raise AssertionError("the call was not refused")


def tasks_live_and_move():
    outcome = update(
        enqueue=[
            t.Enqueue(queue="py#in", pid=b"\x00b", data=b"second"),
            t.Enqueue(queue="py#in", pid=b"\x00a", data=bytes(range(256))),
            t.Enqueue(
                queue="py#in",
                data=b"fifo",
                retry=t.RetryPolicy(max_attempts=3, backoff_initial_ms=100),
                time_limit_ms=20_000,
            ),
            t.Enqueue(queue="py#in", pid=b"later", data=b"delayed", delay_ms=3_600_000),
        ],
        request_id=b"first",
    )
    assert [one.result for one in outcome.enqueued] == [t.ENQUEUE_RESULT_CREATED] * 4
    fifo = outcome.enqueued[2].pid
    assert fifo

    again = update(enqueue=[t.Enqueue(queue="py#in", pid=b"\x00a", data=b"ignored")])
    assert again.enqueued[0].result == t.ENQUEUE_RESULT_COLLAPSED
    replaced = update(
        enqueue=[t.Enqueue(queue="py#in", pid=b"\x00b", data=b"newer", mode=t.ENQUEUE_MODE_REPLACE)]
    )
    assert replaced.enqueued[0].result == t.ENQUEUE_RESULT_REPLACED

    counts = stats("py#in")
    assert (counts.available, counts.leased, counts.delayed) == (3, 0, 1), counts

    first, second, third = lease("py#in", worker_label="snake")
    assert [first.pid, second.pid, third.pid] == [b"\x00a", b"\x00b", fifo]
    assert first.data == bytes(range(256)) and second.data == b"newer" and third.data == b"fifo"
    assert first.attempt == 1 and first.lease_token > 0
    assert abs(first.lease_until_unix_ms - 1000 * time.time() - 60_000) < 30_000
    assert (first.time_limit_ms, third.time_limit_ms) == (0, 20_000)
    assert first.lease_until_unix_ms - third.lease_until_unix_ms == 40_000

    moved = update(
        dequeue=[t.Dequeue(queue="py#in", pid=first.pid, lease_token=first.lease_token)],
        enqueue=[t.Enqueue(queue="py#out", pid=first.pid, data=b"moved")],
        renew=[t.Renew(queue="py#in", pid=second.pid, lease_token=second.lease_token, lease_duration_ms=90_000)],
        release=[t.Release(queue="py#in", pid=third.pid, lease_token=third.lease_token, delay_ms=1_800_000)],
    )
    assert moved.renewed[0].lease_until_unix_ms > second.lease_until_unix_ms
    assert moved.released[0].hidden_until_unix_ms > 1000 * time.time()

    known = stub.GetTasks(
        i.GetTasksRequest(queue="py#in", pids=[first.pid, second.pid, third.pid], include_data=True), timeout=TIMEOUT
    ).tasks
    assert [one.state for one in known] == [i.TASK_STATE_NOT_FOUND, i.TASK_STATE_LEASED, i.TASK_STATE_DELAYED]
    assert known[1].worker_label == "snake" and known[1].worker_address.startswith("127.0.0.1:")
    assert known[2].retry.max_attempts == 3 and known[2].time_limit_ms == 20_000

    peek = lambda kind: stub.PeekTasks(
        i.PeekTasksRequest(queue="py#in", kind=kind, limit=10, include_data=True), timeout=TIMEOUT
    ).tasks
    assert [one.data for one in peek(i.PEEK_KIND_LEASED)] == [b"newer"]
    assert [one.data for one in peek(i.PEEK_KIND_DELAYED)] == [b"fifo", b"delayed"]
    assert list(peek(i.PEEK_KIND_HEAD)) == []
    return second


def refusals_say_why(held):
    code, details = refusal(
        lambda: update(
            enqueue=[t.Enqueue(queue="py#out", data=b"must not come into being")],
            dequeue=[
                t.Dequeue(queue="py#in", pid=held.pid, lease_token=held.lease_token + 1_000_000),
                t.Dequeue(queue="py#in", pid=b"nobody"),
            ],
        )
    )
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert details["google.rpc.ErrorInfo"].reason == "LEASE_LOST"
    items = details["taskmaster.v1.UpdateRefused"].items
    assert [(one.kind, one.index, one.reason, one.pid) for one in items] == [
        (t.ITEM_KIND_DEQUEUE, 0, "LEASE_LOST", held.pid),
        (t.ITEM_KIND_DEQUEUE, 1, "TASK_NOT_FOUND", b"nobody"),
    ]
    assert stats("py#out").available == 1

    code, details = refusal(lambda: update(enqueue=[t.Enqueue(queue="a#x"), t.Enqueue(queue="b#x")]))
    assert (code, details["google.rpc.ErrorInfo"].reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MIXED_GROUPS")
    assert details["google.rpc.BadRequest"].field_violations[0].field == "enqueue[1].queue"
    code, details = refusal(
        lambda: stub.ListQueues(q.ListQueuesRequest(filter=q.QueueFilter(name_regex="(")), timeout=TIMEOUT)
    )
    assert (code, details["google.rpc.ErrorInfo"].reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REGEX")


def long_polls_wait():
    found = []
    waiting = threading.Thread(target=lambda: found.extend(lease("py#poll", wait_ms=15_000)))
    waiting.start()
    update(enqueue=[t.Enqueue(queue="py#poll", data=b"wake up")])
    waiting.join()
    assert [one.data for one in found] == [b"wake up"]

    began = time.monotonic()
    given_up = stub.LeaseTasks.future(
        t.LeaseTasksRequest(queues=["py#idle"], max_tasks=1, lease_duration_ms=60_000, wait_ms=15_000), timeout=TIMEOUT
    )
    given_up.cancel()
    assert given_up.code() == grpc.StatusCode.CANCELLED
    update(enqueue=[t.Enqueue(queue="py#idle", data=b"for somebody else")])
    assert [one.data for one in lease("py#idle", wait_ms=10_000)] == [b"for somebody else"]
    assert time.monotonic() - began < 10


def batches_answer_one_by_one():
    updates = stub.BatchUpdateTasks(
        t.BatchUpdateTasksRequest(
            requests=[
                t.UpdateTasksRequest(enqueue=[t.Enqueue(queue="one#jobs", pid=b"1", data=b"1")]),
                t.UpdateTasksRequest(dequeue=[t.Dequeue(queue="two#jobs", pid=b"missing")]),
                t.UpdateTasksRequest(enqueue=[t.Enqueue(queue="two#jobs", pid=b"2", data=b"2")]),
            ]
        ),
        timeout=TIMEOUT,
    ).results
    assert [one.WhichOneof("result") for one in updates] == ["response", "error", "response"]
    error = updates[1].error
    assert (error.code, error.reason) == (grpc.StatusCode.NOT_FOUND.value[0], "TASK_NOT_FOUND")
    assert error.items[0].pid == b"missing"

    one_lease = lambda name: t.LeaseTasksRequest(queues=[name], max_tasks=5, lease_duration_ms=60_000)
    leases = stub.BatchLeaseTasks(
        t.BatchLeaseTasksRequest(requests=[one_lease("one#jobs"), one_lease(""), one_lease("two#jobs")]),
        timeout=TIMEOUT,
    ).results
    assert [one.data for one in leases[0].response.tasks] == [b"1"]
    assert leases[1].error.reason == "INVALID_QUEUE"
    assert [one.data for one in leases[2].response.tasks] == [b"2"]


def a_stream_carries_everything():
    requests = queue.SimpleQueue()
    replies = stub.Stream(iter(requests.get, None), timeout=TIMEOUT)
    results = (result for reply in replies for result in reply.results)

    def send(*calls):
        requests.put(s.StreamRequest(calls=calls))

    wait = t.LeaseTasksRequest(queues=["py#never"], max_tasks=1, lease_duration_ms=60_000, wait_ms=60_000)
    wanted = t.LeaseTasksRequest(queues=["py#stream"], max_tasks=1, lease_duration_ms=60_000, wait_ms=15_000)
    enqueue = t.UpdateTasksRequest(enqueue=[t.Enqueue(queue="py#stream", pid=b"p", data=b"d")])
    refused = t.UpdateTasksRequest(dequeue=[t.Dequeue(queue="py#stream", pid=b"nobody")])
    send(s.StreamCall(id=1, lease=wait), s.StreamCall(id=2, lease=wanted))
    send(s.StreamCall(id=2**53 - 1, update=enqueue), s.StreamCall(id=4, update=refused))
    got = {}
    while len(got) < 3:
        result = next(results)
        got[result.id] = result
    assert got[2].lease.tasks[0].data == b"d"
    assert got[2**53 - 1].update.enqueued[0].pid == b"p"
    assert got[4].error.reason == "TASK_NOT_FOUND"

    send(s.StreamCall(id=1, cancel=s.CancelCall()))
    result = next(results)
    assert (result.id, result.error.reason) == (1, "CANCELLED")
    requests.put(None)
    assert list(results) == []
    assert replies.code() == grpc.StatusCode.OK


def queues_are_listed_and_deleted():
    listed, token = [], ""
    while True:
        page = stub.ListQueues(
            q.ListQueuesRequest(filter=q.QueueFilter(group="py"), limit=2, page_token=token), timeout=TIMEOUT
        )
        listed += [one.queue for one in page.queues]
        token = page.next_page_token
        if not token:
            break
    assert listed == ["py#idle", "py#in", "py#out", "py#poll", "py#stream"], listed

    report = stub.GetQueueStats(
        q.GetQueueStatsRequest(filter=q.QueueFilter(name_regex="^py#(in|out)$", min_leased=1)), timeout=TIMEOUT
    )
    assert [one.queue for one in report.queues] == ["py#in"]
    assert report.totals.queues == 1 and report.totals.leased == 1

    reset = stub.ResetLeases(q.ResetLeasesRequest(queue="py#in"), timeout=TIMEOUT)
    assert reset.reset_tasks == 1
    assert stats("py#in").available == 1
    gone = stub.DeleteQueue(q.DeleteQueueRequest(queue="py#in"), timeout=TIMEOUT)
    assert gone.deleted_tasks == 3
    counts = stats("py#in")
    assert (counts.available, counts.leased, counts.delayed) == (0, 0, 0)
    assert list(lease("py#in")) == []


def queues_follow_settings():
    settings = q.QueueSettings(retry=t.RetryPolicy(max_attempts=1), dead_letter_queue="py#lost")
    stub.PutQueueSettings(q.PutQueueSettingsRequest(queues="py#set*", settings=settings), timeout=TIMEOUT)
    listed = stub.ListQueueSettings(q.ListQueueSettingsRequest(queue="py#settled"), timeout=TIMEOUT)
    assert [one.queues for one in listed.settings] == ["py#set*"]
    assert listed.effective.dead_letter_queue == "py#lost"
    update(enqueue=[t.Enqueue(queue="py#settled", pid=b"a")])
    (task,) = lease("py#settled")
    assert task.max_attempts == 1
    item = t.Release(queue="py#settled", pid=b"a", lease_token=task.lease_token)
    assert update(release=[item]).released[0].dead_letter_queue == "py#lost"
    gone = stub.DeleteQueueSettings(q.DeleteQueueSettingsRequest(queues="py#set*"), timeout=TIMEOUT)
    assert gone.deleted


def queues_are_paused():
    update(enqueue=[t.Enqueue(queue="py#paused", pid=b"a")])
    request = q.PauseQueuesRequest(queues="py#pau*", reason="why", duration_ms=60_000)
    pause = stub.PauseQueues(request, timeout=TIMEOUT).pause
    assert pause.until_unix_ms - pause.since_unix_ms == 60_000
    assert list(lease("py#paused")) == [] and stats("py#paused").pause.reason == "why"
    resumed = stub.ResumeQueues(q.ResumeQueuesRequest(queues="py#pau*"), timeout=TIMEOUT)
    assert resumed.resumed and not resumed.pauses
    (task,) = lease("py#paused")
    assert not stats("py#paused").HasField("pause")


def tasks_are_changed_in_bulk():
    update(enqueue=[t.Enqueue(queue="py#bulk", pid=pid, key="k" + pid.decode()) for pid in (b"a", b"b")])
    chosen = b.BulkFilter(tasks=b.BULK_TASKS_AVAILABLE, key_prefix="ka")
    spec = b.BulkSpec(action=b.BULK_ACTION_MOVE, filter=chosen, target="py#bulk-moved")
    request = b.StartBulkRunRequest(id="py-run", queues="py#bul*", spec=spec)
    preview = stub.StartBulkRun(b.StartBulkRunRequest(queues="py#bul*", spec=spec, preview=True), timeout=TIMEOUT).preview
    assert preview.matched == 1 and [task.pid for task in preview.samples] == [b"a"]
    assert stub.StartBulkRun(request, timeout=TIMEOUT).started
    assert not stub.StartBulkRun(request, timeout=TIMEOUT).started
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        (run,) = stub.ListBulkRuns(b.ListBulkRunsRequest(queue="py#", id="py-run"), timeout=TIMEOUT).runs
        if run.state != b.BULK_RUN_STATE_RUNNING:
            break
        time.sleep(0.05)
    assert run.state == b.BULK_RUN_STATE_DONE and run.changed == 1
    assert [task.pid for task in lease("py#bulk-moved")] == [b"a"]
    assert not stub.CancelBulkRun(b.CancelBulkRunRequest(queue="py#", id="py-run"), timeout=TIMEOUT).cancelled


def queues_are_limited():
    update(enqueue=[t.Enqueue(queue="py#limited", pid=pid) for pid in (b"a", b"b")])
    limit = stub.LimitQueues(q.LimitQueuesRequest(queues="py#lim*", max_leased=1), timeout=TIMEOUT).limit
    assert limit.max_leased == 1 and limit.leased == 0 and limit.used_up_since_unix_ms == 0
    (task,) = lease("py#limited", max_tasks=9)
    (held_by,) = stats("py#limited").held_by
    assert held_by.queues == "py#lim*" and held_by.leased == 1 and held_by.used_up_since_unix_ms > 0
    rate = q.LeaseRate(tasks=5, per_ms=60_000)
    limit = stub.LimitQueues(q.LimitQueuesRequest(queues="py#lim*", rate=rate), timeout=TIMEOUT).limit
    assert limit.max_leased == 0 and limit.rate.burst == 5
    gone = stub.UnlimitQueues(q.UnlimitQueuesRequest(queues="py#lim*"), timeout=TIMEOUT)
    assert gone.removed and not gone.limits
    (task,) = lease("py#limited")
    assert not stats("py#limited").held_by


def results_are_waited_for():
    update(enqueue=[t.Enqueue(queue="py#asked", pid=b"a")])
    (task,) = lease("py#asked")
    done = t.Dequeue(queue="py#asked", pid=b"a", lease_token=task.lease_token, result=b"42")
    update(dequeue=[done])
    request = w.WaitForTasksRequest(tasks=[w.AwaitedTask(queue="py#asked", pid=b"a")], wait_ms=10_000)
    (ended,) = stub.WaitForTasks(request, timeout=TIMEOUT).ended
    assert ended.outcome == w.TASK_OUTCOME_COMPLETED and ended.result == b"42"


def events_are_read():
    begin = stub.ReadEvents(e.ReadEventsRequest(queues="py#wat*"), timeout=TIMEOUT)
    assert not begin.events and begin.position
    update(enqueue=[t.Enqueue(queue="py#watched", pid=b"a"), t.Enqueue(queue="py#watched", pid=b"b")])
    request = e.ReadEventsRequest(queues="py#wat*", after=begin.position, pid=b"b", wait_ms=10_000)
    (event,) = stub.ReadEvents(request, timeout=TIMEOUT).events
    assert event.kind == e.EVENT_KIND_ENQUEUED and event.queue == "py#watched" and event.position


def schedules_enqueue_tasks():
    spec = c.ScheduleSpec(queue="py#ticks", data=b"tick", interval_ms=100)
    put = stub.PutSchedule(c.PutScheduleRequest(schedule="py#tick", spec=spec), timeout=TIMEOUT)
    assert put.result == c.PUT_SCHEDULE_RESULT_CREATED
    request = t.LeaseTasksRequest(queues=["py#ticks"], max_tasks=1, wait_ms=10_000)
    (task,) = stub.LeaseTasks(request, timeout=TIMEOUT).tasks
    assert task.data == b"tick" and task.pid.endswith(b"Z/tick")
    paused = stub.PauseSchedule(c.PauseScheduleRequest(schedule="py#tick", paused=True), timeout=TIMEOUT)
    assert paused.schedule.paused
    extra = stub.TriggerSchedule(c.TriggerScheduleRequest(schedule="py#tick"), timeout=TIMEOUT)
    assert extra.queue == "py#ticks" and extra.pid.endswith(b"Z!tick")
    (listed,) = stub.ListSchedules(c.ListSchedulesRequest(group="py"), timeout=TIMEOUT).schedules
    assert listed.runs >= 1 and listed.triggered == 1
    assert stub.DeleteSchedule(c.DeleteScheduleRequest(schedule="py#tick"), timeout=TIMEOUT).deleted


def topics_fan_out():
    acme = p.HeaderTest(key="tenant", **{"in": p.HeaderValues(values=["acme"])})
    kept = p.SubscribeRequest(topic="pyt#orders", queue="pyt#mail", filter=p.HeaderFilter(all=[acme]))
    assert stub.Subscribe(kept, timeout=TIMEOUT).created
    short = p.SubscribeRequest(topic="pyt#orders", queue="pyt#worker", ttl_ms=60_000, delete_queue=True)
    assert stub.Subscribe(short, timeout=TIMEOUT).expires_unix_ms > 0
    listed = stub.ListSubscriptions(p.ListSubscriptionsRequest(topic="pyt#"), timeout=TIMEOUT)
    assert [one.queue for one in listed.subscriptions] == ["pyt#mail", "pyt#worker"]

    for tenant, queues in [("acme", ["pyt#mail", "pyt#worker"]), ("globex", ["pyt#worker"])]:
        published = update(enqueue=[t.Enqueue(topic="pyt#orders", data=b"order", headers={"tenant": tenant})])
        assert published.enqueued[0].result == t.ENQUEUE_RESULT_PUBLISHED
        assert [one.queue for one in published.enqueued[0].published.tasks] == queues
    [task] = lease("pyt#mail")
    assert (task.data, dict(task.headers)) == (b"order", {"tenant": "acme"})

    ended = stub.Unsubscribe(p.UnsubscribeRequest(topic="pyt#orders", queue="pyt#worker"), timeout=TIMEOUT)
    assert ended.existed and ended.deleted_tasks == 2


def every_method_reads_its_sample():
    methods = service_pb2.DESCRIPTOR.services_by_name["TaskMasterService"].methods_by_name
    for name, sample in json.loads(sys.argv[3]).items():
        request = message_factory.GetMessageClass(methods[name].input_type).FromString(base64.b64decode(sample))
        try:
            getattr(stub, name)(request, timeout=TIMEOUT)
        except grpc.RpcError as error:
            # It may be about something that is not there.
            assert error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION), (name, error)


def health_is_told():
    health = health_pb2_grpc.HealthStub(channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    for service in ["", SERVICE]:
        reply = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=TIMEOUT)
        assert reply.status == serving
    watch = health.Watch(health_pb2.HealthCheckRequest(service=SERVICE), timeout=TIMEOUT)
    assert next(watch).status == serving
    watch.cancel()


def reflection_is_enough_to_call():
    """Calls without stubs: all descriptors and messages come from the node."""
    reflection = ProtoReflectionDescriptorDatabase(channel)
    assert SERVICE in reflection.get_services()
    pool = descriptor_pool.DescriptorPool(reflection)
    method = pool.FindServiceByName(SERVICE).FindMethodByName("UpdateTasks")
    request = message_factory.GetMessageClass(method.input_type)()
    request.enqueue.add(queue="py#reflected", pid=b"r", data=b"no stubs")
    call = channel.unary_unary(
        f"/{SERVICE}/UpdateTasks",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
    )
    assert call(request, timeout=TIMEOUT).enqueued[0].pid == b"r"
    assert lease("py#reflected")[0].data == b"no stubs"


held = tasks_live_and_move()
refusals_say_why(held)
long_polls_wait()
batches_answer_one_by_one()
a_stream_carries_everything()
queues_are_listed_and_deleted()
queues_follow_settings()
queues_are_paused()
queues_are_limited()
tasks_are_changed_in_bulk()
results_are_waited_for()
events_are_read()
schedules_enqueue_tasks()
topics_fan_out()
every_method_reads_its_sample()
health_is_told()
reflection_is_enough_to_call()
print(json.dumps(sorted(called)))
