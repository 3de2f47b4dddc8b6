import {
  type Caller,
  CLUSTER_SERVICE,
  checkEntries,
  decodeRequest,
  entryBounds,
  type Origin,
  type RawService,
  Refusal,
  type StreamOperation,
  type StreamReply,
  type StreamSession,
  Turnstile,
  type UnaryCaller,
  type UnaryHandler,
  type UnaryService,
} from '@taskmaster/node/grpc';
import { LeaseTasksRequest, limits, StreamRequest, UpdateTasksRequest } from '@taskmaster/proto';
import { batchLease, batchUpdate } from './batches.ts';
import { BytesInFlight } from './bytes-in-flight.ts';
import { getQueueStats, listQueues } from './cluster-reads.ts';
import { leaseTasks } from './leases.ts';
import {
  CallField,
  ResultField,
  readQueue,
  readStream,
  readUpdate,
  type StreamEntry,
  writeField,
} from './raw-codec.ts';
import type { Repetition, RoutedCaller, Router } from './router.ts';
import { type Sender, unarySender } from './sender.ts';
import { StreamSender } from './stream-sender.ts';
import { updateTasks } from './updates.ts';
import type { ClusterMethod, UnaryMethod } from './upstream.ts';

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
  /** Over streams: many calls in one message, and what a node granted to a lease that was given up is heard of. */
  const streamed =
    (serve: (router: Router, bytes: Buffer, caller: RoutedCaller) => Promise<Uint8Array>): UnaryHandler =>
    async (bytes, caller) => {
      using _counted = inFlight.take(bytes.length);
      const sender = streamSender(router, caller.address);
      try {
        return await serve(router, bytes, new ServedCaller(router, caller, sender));
      } finally {
        sender.end();
      }
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
      UpdateTasks: single(updateTasks),
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
  });
}

/**
 * Throws where a node would end the stream: a damaged call that was passed on would take those of its neighbours along.
 * Leases are looked at as they are served; updates are decoded only where a number in them may be out of range.
 */
function checkStream(message: Buffer): void {
  const suspicious = message.length > limits.requestBytes || !isSound(message);
  if (suspicious) decodeRequest(StreamRequest, message, entryBounds.stream);
  else checkEntries(message, entryBounds.stream);
}

function isSound(message: Buffer): boolean {
  try {
    return readStream(message).every(({ field, bytes }) => {
      if (field === CallField.update) return !readUpdate(bytes).hasLongNumber;
      if (field === CallField.lease) LeaseTasksRequest.decode(bytes);
      return true;
    });
  } catch {
    return false;
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

  get signal(): AbortSignal | undefined {
    return this.#caller.signal;
  }
}

/** Whoever made a call on a stream to this server. */
class StreamedCaller implements RoutedCaller {
  readonly sender: Sender;
  readonly until = undefined;
  readonly #caller: Caller;

  constructor(sender: Sender, caller: Caller) {
    this.sender = sender;
    this.#caller = caller;
  }

  get gone(): boolean {
    return this.#caller.gone;
  }

  get signal(): AbortSignal | undefined {
    return this.#caller.signal;
  }
}

/** The calls of one stream, each at the holder of its group. */
class RoutedStreamSession implements StreamSession {
  readonly #router: Router;
  readonly #sender: StreamSender;

  constructor(router: Router, { address }: Origin) {
    this.#router = router;
    this.#sender = streamSender(router, address);
  }

  read(message: Buffer): readonly StreamOperation[] {
    checkStream(message);
    return readStream(message).map((entry) => this.#operationOf(entry));
  }

  hold(held: boolean): void {
    this.#sender.hold(held);
  }

  close(): void {
    this.#sender.end();
  }

  #operationOf({ id, field, bytes }: StreamEntry): StreamOperation {
    switch (field) {
      case CallField.update:
        return { kind: 'update', id, run: (caller) => this.#update(bytes, caller) };
      case CallField.lease:
        return { kind: 'lease', id, run: (caller) => this.#lease(bytes, caller) };
      case CallField.cancel:
        return { kind: 'cancel', id };
      default:
        return { kind: 'none', id };
    }
  }

  async #update(bytes: Uint8Array, caller: Caller): Promise<StreamReply> {
    const reply = await updateTasks(this.#router, bytes, new StreamedCaller(this.#sender, caller));
    return { $case: 'encoded', bytes: writeField(ResultField.update, reply) };
  }

  async #lease(bytes: Uint8Array, caller: Caller): Promise<StreamReply> {
    const reply = await leaseTasks(this.#router, bytes, new StreamedCaller(this.#sender, caller));
    return { $case: 'encoded', bytes: writeField(ResultField.lease, reply) };
  }
}
