import { type CallSignal, Refusal } from '@taskmaster/engine/domain';
import {
  byMethodName,
  CallField,
  type ClusterMethodKey,
  clusterMethodKeys,
  entryBounds,
  type GroupMethodKey,
  groupMethodKeys,
  groupScope,
  type MethodName,
  methodName,
  methods,
  ResultField,
  readStreamEntries,
  type StreamCall,
  StreamRequest,
  type TaskMethodKey,
  type UpdateTasksRequest,
} from '@taskmaster/proto';
import type { CallerAccess } from '@taskmaster/server/access';
import {
  type Caller,
  LARGE_LOOKS,
  type Origin,
  type RawService,
  requireClusterRight,
  type StreamOperation,
  type StreamReply,
  type StreamSession,
  Turnstile,
  type UnaryHandler,
  visitorOf,
} from '@taskmaster/server/calls';
import { CLUSTER_SERVICE, type UnaryService } from '@taskmaster/server/grpc';
import { decodeCall, decodeRequest, groupOf } from '@taskmaster/server/requests';
import { readEntries } from '../upstream/raw-codec.ts';
import { type Sender, sharedSender, unarySender } from '../upstream/sender.ts';
import { StreamSender } from '../upstream/stream-sender.ts';
import type { RoutedPeer } from '../upstream/upstream.ts';
import { batchLease, batchUpdate } from './batches.ts';
import { BytesInFlight } from './bytes-in-flight.ts';
import { CallerSenders } from './caller-senders.ts';
import { giveBack } from './leasing/give-back.ts';
import { leaseTasks } from './leasing/leases.ts';
import { getOverview, getQueueStats, listQueues, listSchedules } from './reads/cluster-reads.ts';
import { peerOf, sharedPeerOf } from './routed-peer.ts';
import type { RoutedCaller, Router } from './routing/router.ts';
import { ServedCaller } from './served-caller.ts';
import { routeOf, type UpdateRoute, updateTasks } from './updates.ts';
import { readEvents, waitForTasks } from './waits.ts';

/** The cluster service of a router. Any node answers for the whole cluster. */
export function createClusterForwarding(router: Router): UnaryService {
  const toAnyNode = (key: ClusterMethodKey): UnaryHandler => {
    const { [key]: method } = methods;
    const { repetition } = method;
    const name = methodName(key);
    return async (bytes, caller) => {
      requireClusterRight(caller.access, method);
      const sender = unarySender(router.upstream, peerOf(caller));
      return router.toAnyNode(
        { method: name, request: () => bytes, repetition },
        new ServedCaller(router, caller, sender),
      );
    };
  };
  return { name: CLUSTER_SERVICE, unary: byMethodName(clusterMethodKeys, toAnyNode) };
}

/** The TaskMaster service of the whole cluster. */
export function createRouterService(router: Router): RawService {
  const inFlight = new BytesInFlight(router.limits.maxInFlightBytes);
  const largeLooks = new Turnstile(LARGE_LOOKS);
  const single =
    (serve: (router: Router, bytes: Buffer, caller: RoutedCaller) => Promise<Uint8Array>): UnaryHandler =>
    async (bytes, caller) => {
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
    const route = routeOf(decodeCall(methods.updateTasks, bytes));
    using _counted = inFlight.take(bytes.length);
    const own = unarySender(router.upstream, peerOf(caller));
    const sender = sharedSender(sharedBy(caller.access.principal), own, router.upstream);
    return await updateTasks(router, bytes, route, new ServedUpdater(router, caller, sender));
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
  const own: Record<MethodName<Exclude<TaskMethodKey, GroupMethodKey>>, UnaryHandler> = {
    UpdateTasks: update,
    LeaseTasks: streamed(leaseTasks),
    BatchUpdateTasks: streamed(batchUpdate),
    BatchLeaseTasks: streamed(batchLease),
    WaitForTasks: streamed(waitForTasks),
    ReadEvents: streamed(readEvents),
    ListQueues: look(single(listQueues)),
    GetQueueStats: look(single(getQueueStats)),
    GetOverview: look(single(getOverview)),
    ListSchedules: look(single(listSchedules)),
  };
  return {
    unary: {
      ...byMethodName(groupMethodKeys, (key) => single(aboutGroup(key))),
      ...own,
    },
    openStream: (origin) => new RoutedStreamSession(router, origin),
  };
}

/** Serves requests about one group. */
function aboutGroup<K extends GroupMethodKey>(key: K) {
  const { [key]: method } = methods;
  const { repetition } = method;
  const name = methodName(key);
  const scope = groupScope(key);
  return async (router: Router, bytes: Buffer, caller: RoutedCaller): Promise<Uint8Array> => {
    const group = groupOf(scope, decodeCall(method, bytes));
    caller.access.require(scope.right, group);
    const partition = router.partitionOfQueue(`${group}#`);
    return router.toHolder(partition, { method: name, request: () => bytes, repetition }, caller);
  };
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

  /**
   * Throws if a node would end the stream, because an invalid call that is forwarded would break the calls next to it. The
   * decoder says what the calls are, and they are forwarded as they came.
   */
  read(message: Buffer): readonly StreamOperation[] {
    const { calls } = decodeRequest(StreamRequest, message, entryBounds.stream);
    const entries = readStreamEntries(message);
    return calls.map((call, index) => {
      const entry = entries[index];
      const field = call.call === undefined ? 0 : CallField[call.call.$case];
      if (entry?.id !== call.id || entry.field !== field) {
        throw new TypeError('a message of a stream was read as two different messages');
      }
      return this.#operationOf(call, entry.bytes);
    });
  }

  hold(held: boolean): void {
    this.#sender.hold(held);
  }

  close(): void {
    this.#sender.end();
  }

  #operationOf({ id, call }: StreamCall, bytes: Uint8Array): StreamOperation {
    switch (call?.$case) {
      case 'update':
        return this.#updateOf(id, call.value, bytes);
      case 'lease':
        return this.#leaseOf(id, bytes, call.value.traceparent);
      case 'wait':
        return this.#waitOf('WaitForTasks', id, bytes, call.value.traceparent);
      case 'events':
        return this.#waitOf('ReadEvents', id, bytes, call.value.traceparent);
      case 'cancel':
        return { kind: 'cancel', id };
      case undefined:
        return { kind: 'none', id };
    }
  }

  #updateOf(id: number, request: UpdateTasksRequest, bytes: Uint8Array): StreamOperation {
    try {
      const route = routeOf(request);
      const { traceparent, requestId } = request;
      return {
        kind: 'update',
        id,
        known: { traceparent, requestId },
        run: (caller) => this.#update(bytes, route, caller),
      };
    } catch (thrown) {
      return { kind: 'update', id, run: () => Promise.reject(thrown) };
    }
  }

  /** A lease may wait for long and must not keep its message in memory. So it is copied, in a function without other closures. */
  #leaseOf(id: number, bytes: Uint8Array, traceparent: string | undefined): StreamOperation {
    const request = new Uint8Array(bytes);
    const run = (caller: Caller) => this.#lease(request, caller);
    return { kind: 'waiting', method: 'LeaseTasks', id, bytes: request.length, traceparent, run };
  }

  #waitOf(
    method: 'WaitForTasks' | 'ReadEvents',
    id: number,
    bytes: Uint8Array,
    traceparent: string | undefined,
  ): StreamOperation {
    const request = Buffer.from(bytes);
    const run = (caller: Caller) => this.#wait(method, request, caller);
    return { kind: 'waiting', method, id, bytes: request.length, traceparent, run };
  }

  async #update(bytes: Uint8Array, route: UpdateRoute, caller: Caller): Promise<StreamReply> {
    // All updates of a stream have the same caller.
    if (this.#updater?.caller !== caller) this.#updater = new StreamedCaller(this.#sender, caller);
    const reply = await updateTasks(this.#router, bytes, route, this.#updater);
    return { $case: 'encoded', field: ResultField.update, bytes: reply };
  }

  async #lease(bytes: Uint8Array, caller: Caller): Promise<StreamReply> {
    const reply = await leaseTasks(this.#router, bytes, new StreamedCaller(this.#sender, caller));
    return { $case: 'encoded', field: ResultField.lease, bytes: reply };
  }

  async #wait(method: 'WaitForTasks' | 'ReadEvents', bytes: Buffer, caller: Caller): Promise<StreamReply> {
    const isForTasks = method === 'WaitForTasks';
    const serve = isForTasks ? waitForTasks : readEvents;
    const reply = await serve(this.#router, bytes, new StreamedCaller(this.#sender, caller));
    return { $case: 'encoded', field: isForTasks ? ResultField.wait : ResultField.events, bytes: reply };
  }
}
