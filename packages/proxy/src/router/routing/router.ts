import { status } from '@grpc/grpc-js';
import type { CallSignal, Refusal } from '@taskmaster/engine/domain';
import { type Clock, type Log, type Random, sleep } from '@taskmaster/engine/ports';
import { Memo, parseQueueName, partitionOf, type Repetition } from '@taskmaster/proto';
import type { CallerAccess } from '@taskmaster/server/access';
import type { Sender, SendFailure } from '../../upstream/sender.ts';
import { LostError, RefusedError, type UnaryMethod, type Upstream } from '../../upstream/upstream.ts';
import { cancelled, interrupted, outcomeUnknown, refusalFor, unreachable } from './refusals.ts';
import type { Holder, RoutedNode, Routes } from './routes.ts';

export interface RouterDeps {
  readonly routes: Routes;
  readonly upstream: Upstream;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly limits?: RouterLimits;
}

export interface RouterLimits {
  /** How long a call is held while its partition moves or its holder restarts, in ms. */
  readonly holdTimeoutMs: number;
  /** Maximum number of calls held at the same time. More calls are refused immediately. */
  readonly maxHeldCalls: number;
  /** How long each node may take to answer a request that goes to all nodes, in ms. */
  readonly fanOutTimeoutMs: number;
  /** Bytes of the requests that are forwarded at the same time. More requests are refused. */
  readonly maxInFlightBytes: number;
}

export const DEFAULT_ROUTER_LIMITS: RouterLimits = {
  holdTimeoutMs: 2_000,
  maxHeldCalls: 10_000,
  fanOutTimeoutMs: 5_000,
  maxInFlightBytes: 128 * 1024 * 1024,
};

/** The client for which the router makes a call. */
export interface RoutedCaller {
  readonly sender: Sender;
  readonly access: CallerAccess;
  /** True if the caller no longer waits for the answer. */
  readonly gone: boolean;
  /** Aborted once `gone`. */
  readonly signal: CallSignal | undefined;
  /** The caller's deadline, by the router's clock. Undefined: none. */
  readonly until: number | undefined;
  /** See `Caller`. */
  beginWaiting?(bytes: number, recheck?: () => void): void;
  /** See `Caller`. */
  requestRefused?(refusal: Refusal): void;
}

export interface RoutedCall {
  readonly method: UnaryMethod;
  /** Called for each attempt, because the remaining waiting time gets shorter. */
  readonly request: () => Uint8Array;
  readonly repetition: Repetition;
  /** Cancels the call. Default: the signal of the caller. */
  readonly signal?: CallSignal | undefined;
}

/** The client for which the router opens a stream. */
export type StreamedCaller = Pick<RoutedCaller, 'gone' | 'signal' | 'until'>;

/** Figures of a router, for metrics. */
export interface RouterFigures {
  /** Attempts at another node because the previous node did not hold the partition. */
  readonly rerouted: number;
  /** Attempts after a temporary refusal or a lost connection. */
  readonly repeated: number;
  /** Calls that now wait for a partition that moves or for a holder that restarts. */
  readonly held: number;
}

/** The first and the longest pause between two attempts, in ms. */
const PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 200;
/** How long the restart of a node may take, in ms. Calls to a node that died longer ago are not held. */
const RESTART_MS = 10_000;
/** How often a call follows a NOT_HOLDER without a pause. More of them mean that nodes disagree, which takes time to end. */
const HASTY_ATTEMPTS = 4;
/** Number of groups whose partition is cached. Hashing the group is the most expensive part of finding a holder. */
const REMEMBERED_GROUPS = 4_096;

/** Refusals after which the same call may succeed a little later. After CLOCK_SKEW the next call is sealed in another way. */
const PASSING_REASONS: ReadonlySet<string> = new Set(['PARTITION_MOVING', 'STARTING', 'SHUTTING_DOWN', 'CLOCK_SKEW']);

/** Whether the call may go to another node: this node did not carry it out, or carrying it out twice changes nothing. */
function mayBeAskedElsewhere(outcome: SendFailure, repetition: Repetition): boolean {
  if (outcome instanceof RefusedError)
    return outcome.error.reason === 'NOT_HOLDER' || PASSING_REASONS.has(outcome.error.reason);
  return outcome.kind === 'connection' && (!outcome.maybeApplied || repetition !== 'unsafe');
}

/** Whether the answer of an attempt was lost that may have changed something, or may still. */
const isInDoubt = (failure: SendFailure, repetition: Repetition): boolean =>
  failure instanceof LostError && failure.maybeApplied && repetition !== 'read';

/** An invalid request never takes effect, also in an attempt whose answer was lost. */
const isNeverTaken = (failure: SendFailure): boolean =>
  failure instanceof RefusedError && failure.error.code === status.INVALID_ARGUMENT;

/** Sends calls to the nodes that hold their partitions. */
export class Router {
  readonly routes: Routes;
  readonly limits: RouterLimits;
  readonly clock: Clock;
  readonly log: Log;
  readonly #upstream: Upstream;
  readonly #random: Random;
  readonly #partitions = new Memo<string, number>(REMEMBERED_GROUPS);
  /** When a call first found a node dead, by node id. */
  readonly #deadSince = new Map<string, number>();
  readonly #stopListeners = new Set<() => void>();
  #isStopping = false;
  #rerouted = 0;
  #repeated = 0;
  #held = 0;

  constructor(deps: RouterDeps) {
    this.routes = deps.routes;
    this.limits = deps.limits ?? DEFAULT_ROUTER_LIMITS;
    this.clock = deps.clock;
    this.log = deps.log;
    this.#upstream = deps.upstream;
    this.#random = deps.random;
  }

  get upstream(): Upstream {
    return this.#upstream;
  }

  get figures(): RouterFigures {
    return { rerouted: this.#rerouted, repeated: this.#repeated, held: this.#held };
  }

  /** True after `stop`. */
  get isStopping(): boolean {
    return this.#isStopping;
  }

  /**
   * Calls the listener on `stop`. Returns a function that removes it. This is not an AbortSignal, whose removal of a listener
   * gets slower with the number of listeners.
   */
  onStop(listener: () => void): () => void {
    this.#stopListeners.add(listener);
    return () => void this.#stopListeners.delete(listener);
  }

  /** Ends long polls without tasks. All other calls continue. */
  stop(): void {
    this.#isStopping = true;
    for (const listener of this.#stopListeners) listener();
  }

  /** Number of partitions of the cluster. Throws a `Refusal` while it is unknown. */
  get partitions(): number {
    const { partitions } = this.routes;
    if (partitions === 0) throw unreachable('the cluster', 'no node has answered yet', {});
    return partitions;
  }

  partitionOfQueue(queue: string): number {
    const { partitions } = this;
    const { group } = parseQueueName(queue);
    return this.#partitions.get(group) ?? this.#partitions.remember(group, partitionOf(group, partitions));
  }

  /** A random integer from 0 to `bound - 1`. */
  pick(bound: number): number {
    return Math.floor(this.#random.next() * bound);
  }

  /**
   * Sends a call to the holder of a partition. Follows the partition when it moves, and repeats the call if that is safe. Holds
   * the call for a limited time while the holder cannot serve it. Rejects with a `Refusal`.
   */
  toHolder(partition: number, call: RoutedCall, caller: RoutedCaller): Promise<Uint8Array> {
    const began = this.clock.now();
    const holder = this.routes.holderOf(partition);
    const goOn = (failure: SendFailure | undefined): Promise<Uint8Array> =>
      this.#goOn(call, caller, new Attempts(this, partition, call, caller, began), holder, failure);
    if (holder === undefined) return goOn(undefined);
    // Nearly all calls succeed at the first attempt. The state for further attempts is created when it fails.
    return this.#attempt(holder.address, call, caller).catch((thrown: unknown) => goOn(failureIn(thrown)));
  }

  async #goOn(
    call: RoutedCall,
    caller: RoutedCaller,
    attempts: Attempts,
    first: Holder | undefined,
    failure: SendFailure | undefined,
  ): Promise<Uint8Array> {
    let holder = first;
    let outcome: Uint8Array | SendFailure | undefined = failure;
    for (;;) {
      const pauseMs = attempts.decide(holder, outcome);
      if (pauseMs > 0) await this.#hold(pauseMs, attempts);
      holder = this.routes.holderOf(attempts.partition);
      outcome = holder === undefined ? undefined : await this.send(holder.address, call, caller);
      if (outcome instanceof Uint8Array) return outcome;
    }
  }

  /**
   * Streams the messages of the partition's holder. `open` opens the stream at an address. Follows the partition as `toHolder`
   * does until the first message arrives. Rejects with a `Refusal`.
   */
  async *streamFromHolder(
    partition: number,
    open: (address: string) => AsyncIterable<Uint8Array>,
    caller: StreamedCaller,
  ): AsyncGenerator<Uint8Array, undefined> {
    const attempts = new Attempts(this, partition, { repetition: 'read' }, caller, this.clock.now());
    for (;;) {
      const holder = this.routes.holderOf(partition);
      let failure: SendFailure | undefined;
      let hasBegun = false;
      try {
        if (holder !== undefined) {
          for await (const message of open(holder.address)) {
            hasBegun = true;
            yield message;
          }
          return;
        }
      } catch (thrown) {
        failure = failureIn(thrown);
        if (hasBegun) throw interrupted(failure, partition);
      }
      const pauseMs = attempts.decide(holder, failure);
      if (pauseMs > 0) await this.#hold(pauseMs, attempts);
    }
  }

  /** Sends a call that has no partition to any node. Every node gives the same answer. */
  async toAnyNode(call: RoutedCall, caller: RoutedCaller): Promise<Uint8Array> {
    const nodes = this.nodesByHope();
    let problem = 'the cluster has no known member';
    let maybeApplied = false;
    for (const { address } of nodes) {
      const outcome = await this.send(address, call, caller);
      if (outcome instanceof Uint8Array) return outcome;
      problem = outcome.message;
      if (isInDoubt(outcome, call.repetition)) maybeApplied = true;
      if (mayBeAskedElsewhere(outcome, call.repetition)) continue;
      throw maybeApplied && !isNeverTaken(outcome) ? outcomeUnknown(problem, {}) : refusalFor(outcome);
    }
    throw maybeApplied ? outcomeUnknown(problem, {}) : unreachable('every node', problem, {});
  }

  /** All nodes, live ones first, starting at a random one. */
  nodesByHope(): readonly RoutedNode[] {
    const nodes = this.routes.nodes();
    const from = this.pick(nodes.length);
    const turned = [...nodes.slice(from), ...nodes.slice(0, from)];
    return [...turned.filter(({ alive }) => alive), ...turned.filter(({ alive }) => !alive)];
  }

  /** Makes one attempt. */
  async send(address: string, call: RoutedCall, caller: RoutedCaller): Promise<Uint8Array | SendFailure> {
    try {
      return await this.#attempt(address, call, caller);
    } catch (thrown) {
      return failureIn(thrown);
    }
  }

  #attempt(address: string, call: RoutedCall, caller: RoutedCaller): Promise<Uint8Array> {
    const { until, sender, access } = caller;
    const timeoutMs = until === undefined ? undefined : Math.max(0, until - this.clock.now());
    const signal = call.signal ?? caller.signal;
    return sender.send(address, call.method, call.request(), { signal, timeoutMs, access });
  }

  /** Takes over the holder that a NOT_HOLDER names. */
  learnFrom({ error }: RefusedError): void {
    const { partition, holder, node_id: nodeId, epoch } = error.metadata;
    const id = Number(partition);
    if (!holder || !nodeId || !Number.isInteger(id) || id < 0 || id >= this.routes.partitions) return;
    this.routes.learn(id, { nodeId, address: holder, epoch: Number(epoch) || 0 });
  }

  /** The pause before an attempt, in whole ms. It doubles with each attempt, with jitter. */
  pauseMs(attempt: number): number {
    const bound = Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** Math.min(attempt, 10));
    return Math.ceil(bound / 2 + (this.#random.next() * bound) / 2);
  }

  /** Whether a node has been dead for longer than a restart takes. */
  isLongDead(nodeId: string): boolean {
    const isDead = this.routes.nodes().some((node) => node.nodeId === nodeId && !node.alive);
    if (!isDead) {
      this.#deadSince.delete(nodeId);
      return false;
    }
    const since = this.#deadSince.get(nodeId) ?? this.clock.now();
    this.#deadSince.set(nodeId, since);
    return this.clock.now() - since >= RESTART_MS;
  }

  get mayHold(): boolean {
    return this.#held < this.limits.maxHeldCalls && !this.#isStopping;
  }

  countRerouted(): void {
    this.#rerouted++;
  }

  async #hold(pauseMs: number, { signal }: Attempts): Promise<void> {
    this.#held++;
    try {
      await sleep(this.clock, pauseMs, signal);
    } catch {
      throw cancelled();
    } finally {
      this.#held--;
      this.#repeated++;
    }
  }
}

type AttemptedCall = Pick<RoutedCall, 'repetition' | 'signal'>;

/** The attempts of one call to the holder of its partition. */
class Attempts {
  readonly partition: number;
  readonly call: AttemptedCall;
  readonly caller: StreamedCaller;
  readonly #router: Router;
  readonly #holdUntil: number;
  #failed = 0;
  #hasty = 0;
  /** True if an answer was lost, so that an attempt may have taken effect. */
  #maybeApplied = false;

  /** `began`: start of the first attempt. */
  constructor(router: Router, partition: number, call: AttemptedCall, caller: StreamedCaller, began: number) {
    this.#router = router;
    this.partition = partition;
    this.call = call;
    this.caller = caller;
    this.#holdUntil = Math.min(began + router.limits.holdTimeoutMs, caller.until ?? Number.POSITIVE_INFINITY);
  }

  get signal(): CallSignal | undefined {
    return this.call.signal ?? this.caller.signal;
  }

  /** Returns the pause before the next attempt, in ms. Throws the final `Refusal` if there is no next attempt. */
  decide(holder: Holder | undefined, failure: SendFailure | undefined): number {
    this.#failed++;
    if (this.caller.gone) throw cancelled();
    if (failure instanceof LostError) {
      if (failure.kind === 'cancelled') throw refusalFor(failure);
      if (isInDoubt(failure, this.call.repetition)) this.#maybeApplied = true;
      const isLast = failure.kind !== 'connection' || (failure.maybeApplied && this.call.repetition === 'unsafe');
      if (isLast) throw this.#maybeApplied ? this.#unknown(failure.message) : refusalFor(failure);
    } else if (failure?.error.reason === 'NOT_HOLDER') {
      this.#router.learnFrom(failure);
      const now = this.#router.routes.holderOf(this.partition);
      if (now !== undefined && now.address !== holder?.address && this.#hasty++ < HASTY_ATTEMPTS) {
        this.#router.countRerouted();
        return 0;
      }
    } else if (failure !== undefined && !PASSING_REASONS.has(failure.error.reason)) {
      throw this.#final(failure);
    }
    return this.#pauseOrEnd(holder, failure);
  }

  #pauseOrEnd(holder: Holder | undefined, failure: SendFailure | undefined): number {
    const router = this.#router;
    const pauseMs = router.pauseMs(this.#failed);
    // A node that has been dead for a while may stay dead for hours, and its callers are many: they are not held.
    const isLongDead = failure instanceof LostError && holder !== undefined && router.isLongDead(holder.nodeId);
    if (!isLongDead && router.mayHold && router.clock.now() + pauseMs < this.#holdUntil) return pauseMs;
    throw this.#final(failure, holder);
  }

  #final(failure: SendFailure | undefined, holder?: Holder): Refusal {
    const metadata = { partition: String(this.partition), ...(holder && { holder: holder.address }) };
    if (failure === undefined || (failure instanceof RefusedError && failure.error.reason === 'NOT_HOLDER')) {
      const refusal = unreachable(`the holder of partition ${this.partition}`, 'no node knows it', metadata);
      return this.#maybeApplied ? this.#unknown(refusal.message) : refusal;
    }
    if (failure instanceof RefusedError) {
      // The attempt whose answer was lost may still arrive.
      return this.#maybeApplied && !isNeverTaken(failure) ? this.#unknown(failure.message) : refusalFor(failure);
    }
    if (this.#maybeApplied) return this.#unknown(failure.message);
    return unreachable(`the node that holds partition ${this.partition}`, failure.message, metadata);
  }

  #unknown(problem: string): Refusal {
    return outcomeUnknown(problem, { partition: String(this.partition) });
  }
}

/** Returns a failure of sending. Throws any other value again. */
function failureIn(thrown: unknown): SendFailure {
  if (thrown instanceof RefusedError || thrown instanceof LostError) return thrown;
  throw thrown;
}
