import { status } from '@grpc/grpc-js';
import { parseQueueName, partitionOf } from '@taskmaster/proto';
import type { CallSignal, Refusal } from '@taskmaster/server/domain';
import { type Clock, type Log, type Random, sleep } from '@taskmaster/server/ports';
import type { Sender, SendFailure } from '../upstream/sender.ts';
import { LostError, RefusedError, type UnaryMethod, type Upstream } from '../upstream/upstream.ts';
import { cancelled, outcomeUnknown, refusalFor, unreachable } from './refusals.ts';
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
  /** How long a call is held while its partition moves or its holder comes back, in ms. */
  readonly holdMs: number;
  /** Calls held at once; beyond it they are refused at once. */
  readonly heldCalls: number;
  /** How long one node may take to answer when all are asked, in ms. */
  readonly fanOutMs: number;
}

export const DEFAULT_ROUTER_LIMITS: RouterLimits = { holdMs: 2_000, heldCalls: 10_000, fanOutMs: 5_000 };

/** Whoever asks. */
export interface RoutedCaller {
  readonly sender: Sender;
  /** Nobody waits for the answer any more. */
  readonly gone: boolean;
  /** Aborted once `gone`. */
  readonly signal: CallSignal | undefined;
  /** When the caller's time is over, by the router's clock; undefined: never. */
  readonly until: number | undefined;
  /** As that of `Caller`. */
  beginWaiting?(): void;
}

/**
 * What repeating a call can do: nothing at all (reads); the same as doing it once (updates with a request id); harm.
 */
export type Repetition = 'harmless' | 'once' | 'unsafe';

export interface RoutedCall {
  readonly method: UnaryMethod;
  /** Made anew for each attempt: a wait gets shorter. */
  readonly request: () => Uint8Array;
  readonly repetition: Repetition;
  /** Gives the call up; default: the caller's. */
  readonly signal?: CallSignal | undefined;
}

/** What a router has done so far, for metrics. */
export interface RouterFigures {
  /** Attempts at another node than the first, because the first one did not hold the partition. */
  readonly rerouted: number;
  /** Attempts after a refusal that ends by itself or a lost connection. */
  readonly repeated: number;
  /** Calls waiting for a partition that moves or a holder that comes back. */
  readonly held: number;
}

/** Waits between attempts, in ms: the first, and the longest. */
const PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 200;
/** What the restart of a node may take: callers of one that died less long ago are held. In ms. */
const RESTART_MS = 10_000;
/** Attempts that follow a node's word at once; more of them mean that nodes disagree, which takes time to end. */
const HASTY_ATTEMPTS = 4;
/** Groups whose partitions are remembered: hashing costs more than all else about finding a holder. */
const REMEMBERED_GROUPS = 4_096;

/** A node says so when the same call may do better a little later. */
const PASSING_REASONS: ReadonlySet<string> = new Set(['PARTITION_MOVING', 'STARTING', 'SHUTTING_DOWN']);

/** Whether another node may be asked the same: this one did not do it, or doing it twice does no harm. */
function mayBeAskedElsewhere(outcome: SendFailure, repetition: Repetition): boolean {
  if (outcome instanceof RefusedError)
    return outcome.error.reason === 'NOT_HOLDER' || PASSING_REASONS.has(outcome.error.reason);
  return outcome.kind === 'connection' && (!outcome.maybeApplied || repetition === 'harmless');
}

/** Sends calls to the nodes that hold their partitions. */
export class Router {
  readonly routes: Routes;
  readonly limits: RouterLimits;
  readonly clock: Clock;
  readonly log: Log;
  readonly #upstream: Upstream;
  readonly #random: Random;
  readonly #partitions = new Map<string, number>();
  /** When a call first found a node dead. */
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

  /** Long polls are to end. */
  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Calls back when long polls are to end; returns what ends that. A signal would look through all its listeners each time. */
  onStop(listener: () => void): () => void {
    this.#stopListeners.add(listener);
    return () => void this.#stopListeners.delete(listener);
  }

  /** Long polls end with no tasks; everything else goes on. */
  stop(): void {
    this.#isStopping = true;
    for (const listener of this.#stopListeners) listener();
  }

  partitionOfQueue(queue: string): number {
    if (this.routes.partitions === 0) throw unreachable('the cluster', 'no node of it has answered yet', {});
    const { group } = parseQueueName(queue);
    const known = this.#partitions.get(group);
    if (known !== undefined) return known;
    const partition = partitionOf(group, this.routes.partitions);
    if (this.#partitions.size >= REMEMBERED_GROUPS) this.#partitions.clear();
    this.#partitions.set(group, partition);
    return partition;
  }

  /** A number from 0 up to but not including the bound. */
  pick(bound: number): number {
    return Math.floor(this.#random.next() * bound);
  }

  /**
   * Has the partition's holder carry a call out: follows it when it moves, repeats what is safe to repeat, holds the call
   * for a short while otherwise. Rejects with a `Refusal`.
   */
  toHolder(partition: number, call: RoutedCall, caller: RoutedCaller): Promise<Uint8Array> {
    const began = this.clock.now();
    const holder = this.routes.holderOf(partition);
    const goOn = (failure: SendFailure | undefined): Promise<Uint8Array> =>
      this.#goOn(new Attempts(this, partition, call, caller, began), holder, failure);
    if (holder === undefined) return goOn(undefined);
    // Nearly all calls end with their first attempt: whatever the others need is left until it fails.
    return this.#attempt(holder.address, call, caller).catch((thrown: unknown) => goOn(failureIn(thrown)));
  }

  async #goOn(attempts: Attempts, first: Holder | undefined, failure: SendFailure | undefined): Promise<Uint8Array> {
    const { partition, call, caller } = attempts;
    let holder = first;
    let outcome: Uint8Array | SendFailure | undefined = failure;
    for (;;) {
      const pauseMs = attempts.decide(holder, outcome);
      if (pauseMs > 0) await this.#hold(pauseMs, attempts);
      holder = this.routes.holderOf(partition);
      outcome = holder === undefined ? undefined : await this.send(holder.address, call, caller);
      if (outcome instanceof Uint8Array) return outcome;
    }
  }

  /** Has any node answer: what cannot be routed is refused by all of them alike. */
  async toAnyNode(call: RoutedCall, caller: RoutedCaller): Promise<Uint8Array> {
    const nodes = this.nodesByHope();
    let problem = 'no member of the cluster is known';
    for (const { address } of nodes) {
      const outcome = await this.send(address, call, caller);
      if (outcome instanceof Uint8Array) return outcome;
      if (!mayBeAskedElsewhere(outcome, call.repetition)) throw refusalFor(outcome);
      problem = outcome.message;
    }
    throw unreachable('every node', problem, {});
  }

  /** The living first, each of them as likely the very first. */
  nodesByHope(): readonly RoutedNode[] {
    const nodes = this.routes.nodes();
    const from = this.pick(nodes.length);
    const turned = [...nodes.slice(from), ...nodes.slice(0, from)];
    return [...turned.filter(({ alive }) => alive), ...turned.filter(({ alive }) => !alive)];
  }

  /** One attempt. */
  async send(address: string, call: RoutedCall, caller: RoutedCaller): Promise<Uint8Array | SendFailure> {
    try {
      return await this.#attempt(address, call, caller);
    } catch (thrown) {
      return failureIn(thrown);
    }
  }

  #attempt(address: string, call: RoutedCall, caller: RoutedCaller): Promise<Uint8Array> {
    const { until, sender } = caller;
    const timeoutMs = until === undefined ? undefined : Math.max(0, until - this.clock.now());
    const signal = call.signal ?? caller.signal;
    return sender.send(address, call.method, call.request(), { signal, timeoutMs });
  }

  /** Believes what a node said of a partition that it does not hold. */
  learnFrom({ error }: RefusedError): void {
    const { partition, holder, node_id: nodeId, epoch } = error.metadata;
    const id = Number(partition);
    if (!holder || !nodeId || !Number.isInteger(id) || id < 0 || id >= this.routes.partitions) return;
    this.routes.learn(id, { nodeId, address: holder, epoch: Number(epoch) || 0 });
  }

  /** The pause before an attempt, in whole ms, as clocks count: longer each time, and hardly the same for two callers. */
  pauseMs(attempt: number): number {
    const bound = Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** Math.min(attempt, 10));
    return Math.ceil(bound / 2 + (this.#random.next() * bound) / 2);
  }

  /** Whether a node is dead, and not only since a moment ago, as it is while it restarts. */
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
    return this.#held < this.limits.heldCalls && !this.#isStopping;
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

/** The attempts of one call at the holder of its partition. */
class Attempts {
  readonly partition: number;
  readonly call: RoutedCall;
  readonly caller: RoutedCaller;
  readonly #router: Router;
  readonly #holdUntil: number;
  #failed = 0;
  #hasty = 0;
  /** An answer was lost that may have been a success. */
  #maybeApplied = false;

  /** `began`: when the first attempt did. */
  constructor(router: Router, partition: number, call: RoutedCall, caller: RoutedCaller, began: number) {
    this.#router = router;
    this.partition = partition;
    this.call = call;
    this.caller = caller;
    this.#holdUntil = Math.min(began + router.limits.holdMs, caller.until ?? Number.POSITIVE_INFINITY);
  }

  get signal(): CallSignal | undefined {
    return this.call.signal ?? this.caller.signal;
  }

  /** How long to wait before the next attempt, in ms; throws the `Refusal` to answer with when there is to be none. */
  decide(holder: Holder | undefined, failure: SendFailure | undefined): number {
    this.#failed++;
    if (this.caller.gone) throw cancelled();
    if (failure instanceof LostError) {
      if (failure.kind === 'cancelled') throw refusalFor(failure);
      if (failure.maybeApplied && this.call.repetition !== 'harmless') this.#maybeApplied = true;
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
    // Nobody waits for a node that has been gone for a while: it may take hours, and the callers are many.
    const hopeless = failure instanceof LostError && holder !== undefined && router.isLongDead(holder.nodeId);
    if (!hopeless && router.mayHold && router.clock.now() + pauseMs < this.#holdUntil) return pauseMs;
    throw this.#final(failure, holder);
  }

  #final(failure: SendFailure | undefined, holder?: Holder): Refusal {
    const metadata = { partition: String(this.partition), ...(holder && { holder: holder.address }) };
    if (failure === undefined || (failure instanceof RefusedError && failure.error.reason === 'NOT_HOLDER')) {
      const refusal = unreachable(`the holder of partition ${this.partition}`, 'no node says who it is', metadata);
      return this.#maybeApplied ? this.#unknown(refusal.message) : refusal;
    }
    if (failure instanceof RefusedError) {
      // The attempt whose answer was lost may still be on its way, and no node would take what is no valid request.
      const isNeverTaken = failure.error.code === status.INVALID_ARGUMENT;
      return this.#maybeApplied && !isNeverTaken ? this.#unknown(failure.message) : refusalFor(failure);
    }
    if (this.#maybeApplied) return this.#unknown(failure.message);
    return unreachable(`the node that holds partition ${this.partition}`, failure.message, metadata);
  }

  #unknown(problem: string): Refusal {
    return outcomeUnknown(problem, { partition: String(this.partition) });
  }
}

/** Throws what is no failure of sending. */
function failureIn(thrown: unknown): SendFailure {
  if (thrown instanceof RefusedError || thrown instanceof LostError) return thrown;
  throw thrown;
}
