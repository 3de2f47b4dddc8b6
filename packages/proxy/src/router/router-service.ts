import {
  CallField,
  LeaseTasksRequest,
  limits,
  ResultField,
  type StreamEntry,
  StreamRequest,
  UpdateTasksRequest,
} from '@taskmaster/proto';
import { type CallSignal, Refusal } from '@taskmaster/server/domain';
import { CLUSTER_SERVICE, type UnaryService } from '@taskmaster/server/grpc';
import {
  type Caller,
  checkEntries,
  decodeRequest,
  entryBounds,
  type Origin,
  type RawService,
  type StreamOperation,
  type StreamReply,
  type StreamSession,
  Turnstile,
  type UnaryCaller,
  type UnaryHandler,
} from '@taskmaster/server/service';
import { readEntries, readQueue, readStream, readUpdate, type UpdateRoute } from '../upstream/raw-codec.ts';
import { type Sender, sharedSender, unarySender } from '../upstream/sender.ts';
import { StreamSender } from '../upstream/stream-sender.ts';
import type { ClusterMethod, UnaryMethod } from '../upstream/upstream.ts';
import { batchLease, batchUpdate } from './batches.ts';
import { BytesInFlight } from './bytes-in-flight.ts';
import { CallerSenders } from './caller-senders.ts';
import { getQueueStats, listQueues } from './cluster-reads.ts';
import { giveBack } from './give-back.ts';
import { leaseTasks } from './leases.ts';
import type { Repetition, RoutedCaller, Router } from './router.ts';
import { updateTasks } from './updates.ts';

/** Requests whose replies may be large are served so many at a time. */
const LARGE_LOOKS_AT_ONCE = 8;

/** Bytes of requests in calls of their own that may be in flight at once: 64 of the largest. */
const IN_FLIGHT_BYTES = 64 * limits.requestBytes;

/** What operators ask of a cluster: any node answers for all of them. */
export function createClusterForwarding(router: Router): UnaryService {
  const toAnyNode =
    (method: ClusterMethod, repetition: Repetition): UnaryHandler =>
    (bytes, caller) => {
      const sender = unarySender(router.upstream, caller.address);
      return router.toAnyNode({ method, request: () => bytes, repetition }, new ServedCaller(router, caller, sender));
    };
  return {
    name: CLUSTER_SERVICE,
    unary: {
      ListMembers: toAnyNode('ListMembers', 'harmless'),
      ListPartitions: toAnyNode('ListPartitions', 'harmless'),
      DrainMember: toAnyNode('DrainMember', 'harmless'),
      // Whoever repeats it would hear that the member has left, and not what was lost.
      RemoveMember: toAnyNode('RemoveMember', 'unsafe'),
    },
  };
}

/** The TaskMaster service of all nodes together. */
export function createRouterService(router: Router): RawService {
  const inFlight = new BytesInFlight(IN_FLIGHT_BYTES);
  const largeLooks = new Turnstile(LARGE_LOOKS_AT_ONCE);
  const single =
    (serve: (router: Router, bytes: Buffer, caller: RoutedCaller) => Promise<Uint8Array>): UnaryHandler =>
    async (bytes, caller) => {
      checkSize(bytes);
      using _counted = inFlight.take(bytes.length);
      return await serve(router, bytes, new ServedCaller(router, caller, unarySender(router.upstream, caller.address)));
    };
  // Whose updates they are is of no interest to the nodes.
  const shared = streamSender(router, '');
  const update: UnaryHandler = async (bytes, caller) => {
    checkSize(bytes);
    using _counted = inFlight.take(bytes.length);
    const own = unarySender(router.upstream, caller.address);
    const sender = sharedSender(shared, own, router.upstream);
    return await updateTasks(router, bytes, new ServedUpdater(router, caller, sender));
  };
  const senders = new CallerSenders(router, (address) => streamSender(router, address));
  /** Over streams: many calls in one message, leases given up without a reset, and what they were granted is heard of. */
  const streamed =
    (serve: (router: Router, bytes: Buffer, caller: RoutedCaller) => Promise<Uint8Array>): UnaryHandler =>
    async (bytes, caller) => {
      using _counted = inFlight.take(bytes.length);
      return await senders.serve(caller.address, (sender) =>
        serve(router, bytes, new ServedCaller(router, caller, sender)),
      );
    };
  const look =
    (serve: UnaryHandler): UnaryHandler =>
    (bytes, caller) =>
      largeLooks.pass(() => {
        if (caller.gone) throw new Refusal('CANCELLED', 'the call was cancelled');
        return serve(bytes, caller);
      });
  return {
    unary: {
      UpdateTasks: update,
      LeaseTasks: streamed(leaseTasks),
      BatchUpdateTasks: streamed(batchUpdate),
      BatchLeaseTasks: streamed(batchLease),
      ListQueues: look(single(listQueues)),
      GetQueueStats: look(single(getQueueStats)),
      PeekTasks: single(aboutQueue('PeekTasks', 'harmless')),
      GetTasks: single(aboutQueue('GetTasks', 'harmless')),
      // A queue of the same name may have come into being since.
      DeleteQueue: single(aboutQueue('DeleteQueue', 'unsafe')),
      ResetLeases: single(aboutQueue('ResetLeases', 'unsafe')),
    },
    openStream: (origin) => new RoutedStreamSession(router, origin),
  };
}

/** Requests that name one queue, in their first field. */
function aboutQueue(method: UnaryMethod, repetition: Repetition) {
  return (router: Router, bytes: Buffer, caller: RoutedCaller): Promise<Uint8Array> => {
    const call = { method, request: () => bytes, repetition };
    const queue = queueIn(bytes);
    return queue === undefined
      ? router.toAnyNode(call, caller)
      : router.toHolder(router.partitionOfQueue(queue), call, caller);
  };
}

function queueIn(bytes: Buffer): string | undefined {
  try {
    return readQueue(bytes);
  } catch {
    return undefined; // Damaged: a node says how.
  }
}

/** As the node would; beyond its own bound it does not read a request at all. */
function checkSize(bytes: Buffer): void {
  if (bytes.length > limits.requestBytes) decodeRequest(UpdateTasksRequest, bytes);
}

function streamSender(router: Router, peer: string): StreamSender {
  const { clock, upstream } = router;
  return new StreamSender({
    upstream,
    peer,
    after: (ms, callback) => clock.at((clock.now() + ms) as ReturnType<typeof clock.now>, callback),
    soon: (callback) => void setImmediate(callback),
    giveBack: (reply) => giveBack(router, readEntries(reply)),
  });
}

/** A call of a stream, with where it goes. */
interface RoutedEntry extends StreamEntry {
  /** Of an update that could be read. */
  readonly route?: UpdateRoute;
}

/**
 * The calls of a message. Throws where a node would end the stream: a damaged call that was passed on would take those of
 * its neighbours along. Updates are decoded only where a number in them may be out of range.
 */
function readCalls(message: Buffer): readonly RoutedEntry[] {
  const calls = message.length > limits.requestBytes ? undefined : soundCalls(message);
  if (calls !== undefined) return calls;
  decodeRequest(StreamRequest, message, entryBounds.stream);
  return readStream(message);
}

/** Undefined: only a decoder can tell what is the matter with them, if anything is. */
function soundCalls(message: Buffer): RoutedEntry[] | undefined {
  checkEntries(message, entryBounds.stream);
  try {
    const calls: RoutedEntry[] = [];
    for (const entry of readStream(message)) {
      const { id, field, bytes } = entry;
      if (field === CallField.lease) LeaseTasksRequest.decode(bytes);
      const route = field === CallField.update ? readUpdate(bytes) : undefined;
      if (route?.hasLongNumber) return undefined;
      calls.push(route === undefined ? entry : { id, field, bytes, route });
    }
    return calls;
  } catch {
    return undefined;
  }
}

/** Whoever made a call of its own to this server. */
class ServedCaller implements RoutedCaller {
  readonly sender: Sender;
  readonly until: number | undefined;
  readonly #caller: UnaryCaller;

  constructor(router: Router, caller: UnaryCaller, sender: Sender) {
    this.#caller = caller;
    this.sender = sender;
    const leftMs = caller.deadline - Date.now();
    this.until = Number.isFinite(leftMs) ? router.clock.now() + leftMs : undefined;
  }

  get gone(): boolean {
    return this.#caller.gone;
  }

  get signal(): CallSignal | undefined {
    return this.#caller.signal;
  }

  beginWaiting(): void {
    this.#caller.beginWaiting?.();
  }
}

/** Whoever made an update in a call of its own: it is carried out, whether or not somebody still waits for the answer. */
class ServedUpdater extends ServedCaller {
  override get signal(): undefined {
    return undefined;
  }
}

/** Whoever made a call on a stream to this server. */
class StreamedCaller implements RoutedCaller {
  readonly sender: Sender;
  readonly until = undefined;
  readonly caller: Caller;

  constructor(sender: Sender, caller: Caller) {
    this.sender = sender;
    this.caller = caller;
  }

  get gone(): boolean {
    return this.caller.gone;
  }

  get signal(): CallSignal | undefined {
    return this.caller.signal;
  }

  beginWaiting(): void {
    this.caller.beginWaiting?.();
  }
}

/** The calls of one stream, each at the holder of its group. */
class RoutedStreamSession implements StreamSession {
  readonly #router: Router;
  readonly #sender: StreamSender;
  #updater: StreamedCaller | undefined;

  constructor(router: Router, { address }: Origin) {
    this.#router = router;
    this.#sender = streamSender(router, address);
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
      case CallField.cancel:
        return { kind: 'cancel', id };
      default:
        return { kind: 'none', id };
    }
  }

  /** Nothing that may wait for long keeps its message: a copy, in a function without closures that see the message. */
  #leaseOf(id: number, bytes: Uint8Array): StreamOperation {
    const request = new Uint8Array(bytes);
    return { kind: 'lease', id, bytes: request.length, run: (caller) => this.#lease(request, caller) };
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
}
