import {
  CallField,
  LeaseTasksRequest,
  limits,
  parseQueueName,
  ResultField,
  readStreamEntries,
  type StreamEntry,
  StreamRequest,
  UpdateTasksRequest,
  WaitForTasksRequest,
} from '@taskmaster/proto';
import type { CallerAccess, GroupRight } from '@taskmaster/server/access';
import { type CallSignal, Refusal } from '@taskmaster/server/domain';
import { CLUSTER_SERVICE, type UnaryService } from '@taskmaster/server/grpc';
import {
  type Caller,
  checkEntries,
  decodeRequest,
  entryBounds,
  LARGE_LOOKS,
  type Origin,
  type RawService,
  readRequest,
  type StreamOperation,
  type StreamReply,
  type StreamSession,
  Turnstile,
  type UnaryCaller,
  type UnaryHandler,
  visitorOf,
} from '@taskmaster/server/service';
import { readEntries, readQueue, readUpdate, type UpdateRoute } from '../upstream/raw-codec.ts';
import { type Sender, sharedSender, unarySender } from '../upstream/sender.ts';
import { StreamSender } from '../upstream/stream-sender.ts';
import type { ClusterMethod, RoutedPeer, UnaryMethod } from '../upstream/upstream.ts';
import { batchLease, batchUpdate } from './batches.ts';
import { BytesInFlight } from './bytes-in-flight.ts';
import { CallerSenders } from './caller-senders.ts';
import { giveBack } from './leasing/give-back.ts';
import { leaseTasks } from './leasing/leases.ts';
import { getQueueStats, listQueues, listSchedules } from './reads/cluster-reads.ts';
import { peerOf, sharedPeerOf } from './routed-peer.ts';
import type { Repetition, RoutedCaller, Router } from './routing/router.ts';
import { ServedCaller } from './served-caller.ts';
import { updateTasks } from './updates.ts';
import { waitForTasks } from './waits.ts';

/** The cluster service of a router. Any node answers for the whole cluster. */
export function createClusterForwarding(router: Router): UnaryService {
  const toAnyNode =
    (method: ClusterMethod, repetition: Repetition, isManaging = false): UnaryHandler =>
    async (bytes, caller) => {
      if (isManaging) requireManager(router, method, caller);
      const sender = unarySender(router.upstream, peerOf(caller));
      return router.toAnyNode({ method, request: () => bytes, repetition }, new ServedCaller(router, caller, sender));
    };
  return {
    name: CLUSTER_SERVICE,
    unary: {
      ListMembers: toAnyNode('ListMembers', 'harmless'),
      ListPartitions: toAnyNode('ListPartitions', 'harmless'),
      DrainMember: toAnyNode('DrainMember', 'harmless', true),
      // The answer to a repetition would be that the member has left, without what was lost.
      RemoveMember: toAnyNode('RemoveMember', 'unsafe', true),
    },
  };
}

/** Logs who changes the cluster, also if that is refused. */
function requireManager({ log }: Router, call: ClusterMethod, { address, access }: UnaryCaller): void {
  const details = { call, caller: address, principal: access.principal };
  try {
    access.requireCluster('manage-cluster');
  } catch (error) {
    const reason = error instanceof Refusal ? error.reason : 'INTERNAL';
    log.warn({ ...details, reason }, 'refused a change of the cluster');
    throw error;
  }
  log.warn(details, 'a caller changes the cluster');
}

/** The TaskMaster service of the whole cluster. */
export function createRouterService(router: Router): RawService {
  const inFlight = new BytesInFlight(router.limits.maxInFlightBytes);
  const largeLooks = new Turnstile(LARGE_LOOKS);
  const single =
    (serve: (router: Router, bytes: Buffer, caller: RoutedCaller) => Promise<Uint8Array>): UnaryHandler =>
    async (bytes, caller) => {
      checkSize(bytes);
      using _counted = inFlight.take(bytes.length);
      return await serve(router, bytes, new ServedCaller(router, caller, unarySender(router.upstream, peerOf(caller))));
    };
  // All callers of a principal share these streams. There is one principal without rules, and as many as the rules have.
  const shared = new Map<string, StreamSender>();
  const sharedBy = (principal: string): StreamSender => {
    const known = shared.get(principal);
    if (known !== undefined) return known;
    const opened = streamSender(router, sharedPeerOf(principal));
    shared.set(principal, opened);
    return opened;
  };
  const update: UnaryHandler = async (bytes, caller) => {
    checkSize(bytes);
    using _counted = inFlight.take(bytes.length);
    const own = unarySender(router.upstream, peerOf(caller));
    const sender = sharedSender(sharedBy(caller.access.principal), own, router.upstream);
    return await updateTasks(router, bytes, new ServedUpdater(router, caller, sender));
  };
  const senders = new CallerSenders(router, (peer) => streamSender(router, peer));
  /**
   * Sends calls over streams: many calls share a message, a lease is cancelled without a reset, and its answer still arrives, so
   * that leased tasks can be released.
   */
  const streamed =
    (serve: (router: Router, bytes: Buffer, caller: RoutedCaller) => Promise<Uint8Array>): UnaryHandler =>
    async (bytes, caller) => {
      using _counted = inFlight.take(bytes.length);
      return await senders.serve(peerOf(caller), (sender) =>
        serve(router, bytes, new ServedCaller(router, caller, sender)),
      );
    };
  const look =
    (serve: UnaryHandler): UnaryHandler =>
    (bytes, caller) =>
      largeLooks.pass(visitorOf(caller), () => {
        if (caller.gone) throw new Refusal('CANCELLED', 'the call was cancelled');
        return serve(bytes, caller);
      });
  return {
    unary: {
      UpdateTasks: update,
      LeaseTasks: streamed(leaseTasks),
      BatchUpdateTasks: streamed(batchUpdate),
      BatchLeaseTasks: streamed(batchLease),
      WaitForTasks: streamed(waitForTasks),
      ListQueues: look(single(listQueues)),
      GetQueueStats: look(single(getQueueStats)),
      PeekTasks: single(aboutQueue('PeekTasks', 'harmless', 'read')),
      GetTasks: single(aboutQueue('GetTasks', 'harmless', 'read')),
      // A repetition could delete a new queue of the same name.
      DeleteQueue: single(aboutQueue('DeleteQueue', 'unsafe', 'manage-queues')),
      ResetLeases: single(aboutQueue('ResetLeases', 'unsafe', 'manage-queues')),
      // A repetition changes nothing.
      PutQueueSettings: single(aboutQueue('PutQueueSettings', 'harmless', 'manage-queues')),
      DeleteQueueSettings: single(aboutQueue('DeleteQueueSettings', 'unsafe', 'manage-queues')),
      ListQueueSettings: single(aboutQueue('ListQueueSettings', 'harmless', 'read', '')),
      // A schedule is named like a queue.
      PutSchedule: single(aboutQueue('PutSchedule', 'harmless', 'enqueue')),
      ListSchedules: look(single(listSchedules)),
      DeleteSchedule: single(aboutQueue('DeleteSchedule', 'unsafe', 'enqueue')),
      PauseSchedule: single(aboutQueue('PauseSchedule', 'harmless', 'enqueue')),
      TriggerSchedule: single(aboutQueue('TriggerSchedule', 'unsafe', 'enqueue')),
      // The first field of requests about topics is the topic, which has the group.
      Subscribe: single(aboutQueue('Subscribe', 'harmless', 'lease')),
      Unsubscribe: single(aboutQueue('Unsubscribe', 'harmless', 'lease')),
      ListSubscriptions: single(aboutQueue('ListSubscriptions', 'harmless', 'read')),
    },
    openStream: (origin) => new RoutedStreamSession(router, origin),
  };
}

/** Serves requests whose first field names one queue. `byDefault`: the queue of a request that names none. */
function aboutQueue(method: UnaryMethod, repetition: Repetition, right: GroupRight, byDefault?: string) {
  return async (router: Router, bytes: Buffer, caller: RoutedCaller): Promise<Uint8Array> => {
    const call = { method, request: () => bytes, repetition };
    const queue = queueIn(bytes, byDefault);
    if (queue !== undefined) caller.access.require(right, parseQueueName(queue).group);
    return queue === undefined
      ? router.toAnyNode(call, caller)
      : router.toHolder(router.partitionOfQueue(queue), call, caller);
  };
}

function queueIn(bytes: Buffer, byDefault: string | undefined): string | undefined {
  try {
    return readQueue(bytes) ?? byDefault;
  } catch {
    return undefined; // The request is not valid. A node refuses it.
  }
}

/** Refuses a request that is too large as a node would. */
function checkSize(bytes: Buffer): void {
  if (bytes.length > limits.requestBytes) decodeRequest(UpdateTasksRequest, bytes);
}

function streamSender(router: Router, peer: RoutedPeer): StreamSender {
  const { clock, upstream } = router;
  return new StreamSender({
    upstream,
    peer,
    timing: {
      now: () => clock.now(),
      after: (ms, callback) => clock.at((clock.now() + ms) as ReturnType<typeof clock.now>, callback),
    },
    soon: (callback) => void setImmediate(callback),
    giveBack: (reply) => giveBack(router, readEntries(reply)),
  });
}

/** A call of a stream, with its route. */
interface RoutedEntry extends StreamEntry {
  /** Route of an update. Undefined for other calls, and for an update that cannot be read. */
  readonly route?: UpdateRoute;
}

/**
 * Reads the calls of a message. Throws if a node would end the stream, because an invalid call that is forwarded would break the
 * calls next to it. Updates are decoded only if one of their numbers may be out of range.
 */
function readCalls(message: Buffer): readonly RoutedEntry[] {
  const calls = message.length > limits.requestBytes ? undefined : soundCalls(message);
  if (calls !== undefined) return calls;
  decodeRequest(StreamRequest, message, entryBounds.stream);
  // The decoder may stop early in one of the calls.
  return readRequest(() => readStreamEntries(message));
}

/** Reads the calls without decoding them. Undefined if that cannot tell whether they are valid. */
function soundCalls(message: Buffer): RoutedEntry[] | undefined {
  checkEntries(message, entryBounds.stream);
  try {
    const calls: RoutedEntry[] = [];
    for (const entry of readStreamEntries(message)) {
      const { id, field, bytes } = entry;
      if (field === CallField.lease) LeaseTasksRequest.decode(bytes);
      if (field === CallField.wait) WaitForTasksRequest.decode(bytes);
      const route = field === CallField.update ? readUpdate(bytes) : undefined;
      if (route?.hasLongNumber) return undefined;
      calls.push(route === undefined ? entry : { id, field, bytes, route });
    }
    return calls;
  } catch {
    return undefined;
  }
}

/** The client of a unary update. The update is carried out even if the client cancels the call. */
class ServedUpdater extends ServedCaller {
  override get signal(): undefined {
    return undefined;
  }
}

/** The client of a call on a stream to this server. */
class StreamedCaller implements RoutedCaller {
  readonly sender: Sender;
  readonly until = undefined;
  readonly caller: Caller;

  constructor(sender: Sender, caller: Caller) {
    this.sender = sender;
    this.caller = caller;
  }

  get access(): CallerAccess {
    return this.caller.access;
  }

  get gone(): boolean {
    return this.caller.gone;
  }

  get signal(): CallSignal | undefined {
    return this.caller.signal;
  }

  beginWaiting(bytes: number, recheck?: () => void): void {
    this.caller.beginWaiting?.(bytes, recheck);
  }
}

/** Serves one stream: sends each call to the holder of its group. */
class RoutedStreamSession implements StreamSession {
  readonly #router: Router;
  readonly #sender: StreamSender;
  #updater: StreamedCaller | undefined;

  constructor(router: Router, origin: Origin) {
    this.#router = router;
    this.#sender = streamSender(router, peerOf(origin));
  }

  read(message: Buffer): readonly StreamOperation[] {
    return readCalls(message).map((call) => this.#operationOf(call));
  }

  hold(held: boolean): void {
    this.#sender.hold(held);
  }

  close(): void {
    this.#sender.end();
  }

  #operationOf({ id, field, bytes, route }: RoutedEntry): StreamOperation {
    switch (field) {
      case CallField.update:
        return { kind: 'update', id, run: (caller) => this.#update(bytes, route, caller) };
      case CallField.lease:
        return this.#leaseOf(id, bytes);
      case CallField.wait:
        return this.#waitOf(id, bytes);
      case CallField.cancel:
        return { kind: 'cancel', id };
      default:
        return { kind: 'none', id };
    }
  }

  /** A lease may wait for long and must not keep its message in memory. So it is copied, in a function without other closures. */
  #leaseOf(id: number, bytes: Uint8Array): StreamOperation {
    const request = new Uint8Array(bytes);
    const run = (caller: Caller) => this.#lease(request, caller);
    return { kind: 'waiting', method: 'LeaseTasks', id, bytes: request.length, run };
  }

  #waitOf(id: number, bytes: Uint8Array): StreamOperation {
    const request = Buffer.from(bytes);
    const run = (caller: Caller) => this.#wait(request, caller);
    return { kind: 'waiting', method: 'WaitForTasks', id, bytes: request.length, run };
  }

  async #update(bytes: Uint8Array, route: UpdateRoute | undefined, caller: Caller): Promise<StreamReply> {
    // All updates of a stream have the same caller.
    if (this.#updater?.caller !== caller) this.#updater = new StreamedCaller(this.#sender, caller);
    const reply = await updateTasks(this.#router, bytes, this.#updater, route);
    return { $case: 'encoded', field: ResultField.update, bytes: reply };
  }

  async #lease(bytes: Uint8Array, caller: Caller): Promise<StreamReply> {
    const reply = await leaseTasks(this.#router, bytes, new StreamedCaller(this.#sender, caller));
    return { $case: 'encoded', field: ResultField.lease, bytes: reply };
  }

  async #wait(bytes: Buffer, caller: Caller): Promise<StreamReply> {
    const reply = await waitForTasks(this.#router, bytes, new StreamedCaller(this.#sender, caller));
    return { $case: 'encoded', field: ResultField.wait, bytes: reply };
  }
}
