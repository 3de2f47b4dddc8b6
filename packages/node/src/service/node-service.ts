import { type EventsReply, Refusal } from '@taskmaster/engine/domain';
import {
  type AwaitedTask,
  byMethodName,
  entryBounds,
  type LeaseTasksRequest,
  type LeaseTasksResponse,
  type Method,
  methods,
  type ReadEventsRequest,
  type ReplyOf,
  type RequestOf,
  ResultField,
  type StreamCall,
  StreamRequest,
  type TaskMethodKey,
  taskMethodKeys,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
  type WaitForTasksResponse,
} from '@taskmaster/proto';
import {
  awaitedBytes,
  type Caller,
  LARGE_LOOKS,
  type RawService,
  readerBytes,
  type StreamOperation,
  type StreamReply,
  type StreamSession,
  type TaskHandlers,
  Turnstile,
  type UnaryHandler,
  visitorOf,
} from '@taskmaster/server/calls';
import { decodeCall, decodeRequest, knowsRegex } from '@taskmaster/server/requests';
import type { Handlers } from './handlers.ts';
import type { FairTurns, Size } from './turns/fair-turns.ts';
import { countItems } from './updates.ts';

/** The service of a node. `turns` shares the node fairly among callers. Undefined: first come, first served. */
export function createNodeService(handlers: Handlers, turns?: FairTurns): RawService {
  const work: Work = turns ? inTurns(handlers, turns) : handlers;
  const all: TaskHandlers = { ...handlers, ...work };
  const largeLooks = new Turnstile(LARGE_LOOKS);
  const unary = <K extends TaskMethodKey>(key: K): UnaryHandler => {
    const method: Method<RequestOf<K>, ReplyOf<K>> = methods[key];
    const run: (request: RequestOf<K>, caller: Caller) => Promise<ReplyOf<K>> = all[key];
    const { isLarge, responseSerialize: encode } = method;
    const runLarge = (decoded: RequestOf<K>, caller: Caller): Promise<ReplyOf<K>> =>
      largeLooks.pass(visitorOf(caller), () => {
        if (caller.gone) throw new Refusal('CANCELLED', 'the call was cancelled');
        return run(decoded, caller);
      });
    // No async function and no closure for each call: ten thousand long polls would keep them in memory.
    return (bytes, caller) => {
      try {
        const decoded = decodeCall(method, bytes);
        const isLook = typeof isLarge === 'boolean' ? isLarge : isLarge(decoded);
        return (isLook ? runLarge(decoded, caller) : run(decoded, caller)).then(encode);
      } catch (error) {
        return Promise.reject(error);
      }
    };
  };
  return { unary: byMethodName(taskMethodKeys, unary), openStream: () => new NodeStreamSession(work) };
}

/** The methods that change tasks, or wait for changes. They are run in turns. */
type Work = Pick<
  Handlers,
  'updateTasks' | 'leaseTasks' | 'batchUpdateTasks' | 'batchLeaseTasks' | 'waitForTasks' | 'readEvents'
>;

/** A lease counts for at most this number of tasks, because fewer tasks than requested may be available. */
const MOST_LEASE_TASKS = 32;
/** A read of events counts as a lease: it may have many events or none. */
const READ_SIZE: Size = { tasks: MOST_LEASE_TASKS, kib: 0, copiedKib: 0 };
/** A pattern whose expression has to be compiled counts for this number of tasks. */
const NEW_REGEX_TASKS = 64;

const total = (sizes: readonly Size[]): Size => ({
  tasks: sizes.reduce((so, { tasks }) => so + tasks, 1),
  kib: sizes.reduce((so, { kib }) => so + kib, 0),
  copiedKib: sizes.reduce((so, { copiedKib }) => so + copiedKib, 0),
});

function inTurns(handlers: Handlers, turns: FairTurns): Work {
  const updated = (request: UpdateTasksRequest): Size => {
    let bytes = 0;
    let copies = 0;
    let copiedBytes = 0;
    for (const { topic, data } of request.enqueue) {
      bytes += data.length;
      if (topic === '') continue;
      const queues = handlers.countOfTopic(topic);
      copies += queues;
      copiedBytes += queues * data.length;
    }
    for (const { result } of request.dequeue) bytes += result?.length ?? 0;
    for (const { checkpoint } of request.renew) bytes += checkpoint?.length ?? 0;
    return {
      tasks: countItems(request) + copies,
      kib: Math.floor(bytes / 1024),
      copiedKib: Math.floor(copiedBytes / 1024),
    };
  };
  const leased = ({ maxTasks, patterns }: LeaseTasksRequest): Size => ({
    tasks: patterns.reduce(
      (tasks, { nameRegex }) => (knowsRegex(nameRegex) ? tasks : tasks + NEW_REGEX_TASKS),
      Math.max(1, Math.min(MOST_LEASE_TASKS, maxTasks)),
    ),
    kib: 0,
    copiedKib: 0,
  });
  const inTurn =
    <Q, R>(
      handle: (request: Q, caller: Caller) => Promise<R>,
      sizeOf: (request: Q) => Size,
      bytesOf: (request: Q) => number,
      commits = false,
    ) =>
    (request: Q, caller: Caller): Promise<R> => {
      const { tasks, kib, copiedKib } = sizeOf(request);
      const heldBytes = (): number => bytesOf(request);
      return turns.run(caller.address, {
        tasks,
        kib,
        copiedKib,
        commits,
        heldBytes,
        start: () => handle(request, caller),
      });
    };
  return {
    updateTasks: inTurn(handlers.updateTasks, updated, updateBytes, true),
    leaseTasks: inTurn(handlers.leaseTasks, leased, leaseRequestBytes),
    batchUpdateTasks: inTurn(
      handlers.batchUpdateTasks,
      ({ requests }) => total(requests.map(updated)),
      ({ requests }) => sum(requests, updateBytes),
      true,
    ),
    batchLeaseTasks: inTurn(
      handlers.batchLeaseTasks,
      ({ requests }) => total(requests.map(leased)),
      ({ requests }) => sum(requests, leaseRequestBytes),
    ),
    waitForTasks: inTurn(
      handlers.waitForTasks,
      ({ tasks }) => ({ tasks: tasks.length, kib: 0, copiedKib: 0 }),
      (request) => ownBytes(request) + sum(request.tasks, ({ queue, pid }) => ENTRY_BYTES + queue.length + pid.length),
    ),
    readEvents: inTurn(
      handlers.readEvents,
      () => READ_SIZE,
      (request) => ownBytes(request) + readerBytes(request),
    ),
  };
}

/** Approximate memory of a decoded request and of each of its entries, beside their texts and payloads, in bytes. */
const REQUEST_BYTES = 512;
const ENTRY_BYTES = 320;
const HEADER_BYTES = 64;

/** Of a request beside its entries. */
const ownBytes = ({ traceparent = '' }: { readonly traceparent?: string | undefined }): number =>
  REQUEST_BYTES + traceparent.length;

function sum<T>(entries: readonly T[], bytesOf: (entry: T) => number): number {
  let bytes = 0;
  for (const entry of entries) bytes += bytesOf(entry);
  return bytes;
}

function updateBytes(request: UpdateTasksRequest): number {
  let bytes = ownBytes(request) + ENTRY_BYTES * (countItems(request) + request.parts.length);
  for (const { data, pid, key, limitKey, kind, signalId, headers, links } of request.enqueue) {
    bytes += data.length + pid.length + key.length + limitKey.length + (kind?.length ?? 0) + (signalId?.length ?? 0);
    for (const [name, value] of Object.entries(headers)) bytes += HEADER_BYTES + name.length + value.length;
    if (links === undefined) continue;
    bytes += ENTRY_BYTES + links.orderKey.length;
    bytes += sum(links.parents, (parent) => ENTRY_BYTES + parent.pid.length + parent.key.length);
  }
  for (const { result, cancelReason } of request.dequeue) bytes += (result?.length ?? 0) + (cancelReason?.length ?? 0);
  for (const { progress, checkpoint } of request.renew) bytes += (progress?.length ?? 0) + (checkpoint?.length ?? 0);
  for (const { error } of request.release)
    bytes += error === undefined ? 0 : error.message.length + error.details.length;
  return bytes;
}

const leaseRequestBytes = (request: LeaseTasksRequest): number =>
  ownBytes(request) +
  sum(request.queues, (queue) => ENTRY_BYTES / 4 + queue.length) +
  sum(request.patterns, ({ nameRegex }) => ENTRY_BYTES + nameRegex.length);

class NodeStreamSession implements StreamSession {
  readonly #handlers: Work;

  constructor(handlers: Work) {
    this.#handlers = handlers;
  }

  read(message: Buffer): readonly StreamOperation[] {
    const { calls } = decodeRequest(StreamRequest, message, entryBounds.stream);
    return calls.map((call) => this.#operationOf(call, message.buffer));
  }

  /** Nothing to hold: the node has the answers already. */
  hold(): void {}

  close(): void {}

  #operationOf({ id, call }: StreamCall, memory: ArrayBufferLike): StreamOperation {
    const handlers = this.#handlers;
    switch (call?.$case) {
      case 'update':
        return { kind: 'update', id, known: call.value, run: runner(handlers.updateTasks, call.value, updateReply) };
      case 'lease': {
        const request = apartFrom(memory, call.value);
        const { traceparent } = request;
        const run = runner(handlers.leaseTasks, request, leaseReply);
        return { kind: 'waiting', method: 'LeaseTasks', id, bytes: leaseBytes(request), traceparent, run };
      }
      case 'wait': {
        const { traceparent } = call.value;
        const tasks = call.value.tasks.map(ownPid);
        const run = runner(handlers.waitForTasks, { ...call.value, tasks }, waitReply);
        return { kind: 'waiting', method: 'WaitForTasks', id, bytes: awaitedBytes(tasks), traceparent, run };
      }
      case 'events': {
        const request = apartFromMessage(call.value);
        const { traceparent } = request;
        const run = runner(handlers.readEvents, request, eventsReply);
        return { kind: 'waiting', method: 'ReadEvents', id, bytes: readerBytes(request), traceparent, run };
      }
      case 'cancel':
        return { kind: 'cancel', id };
      case undefined:
        return { kind: 'none', id };
    }
  }
}

/** A separate function: closures of one function share their variables, and this closure may wait for long. */
const runner =
  <Q, R>(handle: (request: Q, caller: Caller) => Promise<R>, request: Q, replyOf: (reply: R) => StreamReply) =>
  async (caller: Caller): Promise<StreamReply> =>
    replyOf(await handle(request, caller));

const updateReply = (value: UpdateTasksResponse): StreamReply => ({ $case: 'update', value });
const leaseReply = (value: LeaseTasksResponse): StreamReply => ({ $case: 'lease', value });
const waitReply = (value: WaitForTasksResponse): StreamReply => ({ $case: 'wait', value });
const eventsReply = ({ encoded: bytes }: EventsReply): StreamReply => ({
  $case: 'encoded',
  field: ResultField.events,
  bytes,
});

/** Copies `maxPid`, because a view would keep the whole message in memory while the lease waits. */
const apartFrom = (memory: ArrayBufferLike, request: LeaseTasksRequest): LeaseTasksRequest =>
  request.maxPid.buffer === memory ? { ...request, maxPid: new Uint8Array(request.maxPid) } : request;

/** As `apartFrom`, for the task of a read of events. */
const apartFromMessage = (request: ReadEventsRequest): ReadEventsRequest =>
  request.task?.$case === 'pid'
    ? { ...request, task: { $case: 'pid', value: new Uint8Array(request.task.value) } }
    : request;

/** As `apartFrom`, for an awaited task. */
const ownPid = (task: AwaitedTask): AwaitedTask => ({ ...task, pid: new Uint8Array(task.pid) });

/** The approximate size of a lease request, in bytes. */
const leaseBytes = ({ queues, patterns, maxPid, workerLabel: worker }: LeaseTasksRequest): number =>
  queues.reduce((bytes, queue) => bytes + 2 + queue.length, 24 + maxPid.length + worker.length) +
  patterns.reduce((bytes, { nameRegex, group = '' }) => bytes + 8 + nameRegex.length + group.length, 0);
