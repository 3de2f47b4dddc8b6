import { type ListMembersResponse, methods, type Partition, type RoutedNames } from '@taskmaster/proto';
import { cancelled } from '../values/errors.ts';
import type { Routing } from '../values/options.ts';
import { warn } from '../values/warnings.ts';
import type { Connection } from './connection.ts';
import type { EndpointPool } from './endpoint-pool.ts';
import { HolderTable, readDenial } from './holder-table.ts';
import { type SentMethod, unaryCall } from './single-call.ts';
import type { CancelTimer, Timing } from './timing.ts';

export interface HolderRoutesParts {
  readonly routing: Routing;
  readonly pool: EndpointPool;
  /** Connects to a node. */
  readonly open: (address: string) => Connection;
  /** Whether calls may go to a node that other nodes name, with the token that they have. */
  readonly mayGoTo: (address: string) => boolean;
  readonly timing: Timing;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

/** Time between two reads of the whole table, in ms. It varies by a fifth, so that clients do not ask at the same time. */
const REFRESH_MS = 30_000;
const REFRESH_SPREAD = 0.2;
/** Time between two reads without an answer or without a cluster, in ms. */
const REFRESH_FAILED_MS = 5_000;
/** Shortest time between two reads, in ms. */
const REFRESH_LEAST_MS = 1_000;
/** Timeout of a request about the cluster, in ms. Nodes wait two seconds for each other. */
const ASK_MS = 5_000;
/** How long calls wait until the number of partitions is known, in ms. */
const LEARNING_MS = 1_000;

/**
 * Chooses connections for calls: the connection to the holder of the group if it is known and up, otherwise one of the endpoints.
 *
 * Nodes that do not hold a group name the holder. With `direct` the client also reads the table of holders from a node. Without
 * such answers, as with proxies, this costs nothing.
 */
export class HolderRoutes {
  readonly #parts: HolderRoutesParts;
  readonly #table = new HolderTable();
  /** Connections to holders that are no endpoints. */
  readonly #connections = new Map<string, Connection>();
  readonly #closing = new AbortController();
  /** Running request for the number of partitions. Without this number no group can be looked up. */
  #learning: Promise<void> | undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;
  #refreshAt = Number.POSITIVE_INFINITY;
  #cancelTimer: CancelTimer | undefined;
  #hasWarned = false;

  constructor(parts: HolderRoutesParts) {
    this.#parts = parts;
    if (parts.routing === 'direct') this.#refreshBy(parts.timing.now());
  }

  /** A connection that is up. Undefined: none is up, or the right one is opening and the call should wait for it. */
  pick(queues: RoutedNames): Connection | undefined {
    const { pool, timing } = this.#parts;
    if (queues === undefined || this.#table.isEmpty) return pool.pick();
    if (this.#learning !== undefined) return undefined;
    const now = timing.now();
    const address = this.#table.addressOf(queues, now);
    if (address === undefined) return pool.pick() ?? this.#distrusted(queues);
    const holder = this.#connectionTo(address);
    if (!holder.isLive) return holder.opening === undefined ? pool.pick() : undefined;
    // While a holder starts or stops, the call goes to an endpoint: a proxy waits for the holder.
    return holder.isResting(now) ? (pool.pick() ?? holder) : holder;
  }

  /** As `pick`, but waits. @throws UnavailableError if no endpoint is up in time; CancelledError. */
  async whenLive(
    queues: RoutedNames,
    timeoutMs: number | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Connection> {
    const { pool, timing } = this.#parts;
    const start = timing.now();
    const left = (): number | undefined => timeoutMs && Math.max(0, timeoutMs - (timing.now() - start));
    // Waits for the number of partitions, then for the connection to the holder.
    for (let step = 0; step < 2; step++) {
      const over = this.#overSoon(queues);
      if (over !== undefined) await this.#within(over, Math.min(LEARNING_MS, left() ?? LEARNING_MS), signal);
    }
    if (signal?.aborted) throw cancelled(signal);
    return this.pick(queues) ?? pool.whenLive(left(), signal);
  }

  /** Call it when a node has refused with NOT_HOLDER. */
  denied(connection: Connection, metadata: Readonly<Record<string, string>>): void {
    const denial = readDenial(metadata);
    const { routing, timing } = this.#parts;
    if (denial === undefined || this.#closing.signal.aborted) return;
    const named = denial.holder;
    const holder = named !== undefined && this.#mayGoTo(named.address) ? named : undefined;
    const isNews = this.#table.denied(connection.endpoint, denial.partition, holder, timing.now());
    if (isNews && holder !== undefined) {
      this.#connectionTo(holder.address);
      this.#closeUnused();
    }
    if (this.#table.partitions === undefined) this.#learning ??= this.#learn();
    if (routing === 'direct') this.#refreshSoon();
  }

  /** Call it when a connection is lost: other nodes may hold its partitions soon. */
  lost(): void {
    if (this.#parts.routing === 'direct') this.#refreshSoon();
  }

  close(): void {
    this.#closing.abort();
    this.#cancelTimer?.();
    for (const connection of this.#connections.values()) connection.close();
    this.#connections.clear();
  }

  /** What `pick` waits for. Undefined: nothing. */
  #overSoon(queues: RoutedNames): Promise<void> | undefined {
    if (queues === undefined || this.#table.isEmpty) return undefined;
    if (this.#learning !== undefined) return this.#learning;
    const address = this.#table.addressOf(queues, this.#parts.timing.now());
    return address === undefined ? undefined : this.#connectionTo(address).opening;
  }

  /** Whether calls may go to an address that a node names. A node cannot make the client send its token where it may not go. */
  #mayGoTo(address: string): boolean {
    const mayGo = this.#parts.mayGoTo(address);
    if (!mayGo && !this.#hasWarned) {
      this.#hasWarned = true;
      warn(
        'TASKMASTER_HOLDER_IN_PLAIN_TEXT',
        `a node names ${address} as a holder of groups, but the token would go there in plain text, so calls go to the endpoints ` +
          'only; use tls, or accept this with insecure',
      );
    }
    return mayGo;
  }

  /** A holder that denied the partition is asked again if no endpoint is up. */
  #distrusted(queues: number | string | readonly string[]): Connection | undefined {
    const address = this.#table.addressOf(queues, Number.POSITIVE_INFINITY);
    const holder = address === undefined ? undefined : this.#connectionTo(address);
    return holder?.isLive ? holder : undefined;
  }

  #connectionTo(address: string): Connection {
    const { pool, open } = this.#parts;
    let connection = this.#connections.get(address) ?? pool.at(address);
    if (connection === undefined) {
      connection = open(address);
      this.#connections.set(address, connection);
    }
    return connection;
  }

  /** Closes connections to nodes that are no holders any more, unless they have calls in flight. */
  #closeUnused(): void {
    const { addresses } = this.#table;
    for (const [address, connection] of this.#connections) {
      if (addresses.has(address) || !connection.isIdle) continue;
      this.#connections.delete(address);
      connection.close();
    }
  }

  /** Reads the number of partitions. Without an answer the next NOT_HOLDER reads it again. */
  async #learn(): Promise<void> {
    const members = await this.#ask(methods.listMembers);
    if (members !== undefined) this.#takeIn(members, []);
    this.#learning = undefined;
  }

  #refreshSoon(): void {
    this.#refreshBy(Math.max(this.#parts.timing.now(), this.#refreshedAt + REFRESH_LEAST_MS));
  }

  #refreshBy(instant: number): void {
    if (instant >= this.#refreshAt || this.#closing.signal.aborted) return;
    const { timing } = this.#parts;
    this.#cancelTimer?.();
    this.#refreshAt = instant;
    this.#cancelTimer = timing.after(Math.max(0, instant - timing.now()), () => {
      this.#refreshAt = Number.POSITIVE_INFINITY;
      void this.#refresh();
    });
  }

  async #refresh(): Promise<void> {
    const { timing, random } = this.#parts;
    this.#refreshedAt = timing.now();
    const members = await this.#ask(methods.listMembers);
    const listing = members && (await this.#ask(methods.listPartitions));
    if (members !== undefined && listing !== undefined) this.#takeIn(members, listing.partitions);
    const afterMs = listing === undefined ? REFRESH_FAILED_MS : REFRESH_MS;
    this.#refreshBy(timing.now() + afterMs * (1 + REFRESH_SPREAD * (2 * random() - 1)));
  }

  #takeIn({ clusterId, partitions, members }: ListMembersResponse, listing: readonly Partition[]): void {
    if (this.#closing.signal.aborted || partitions === 0) return;
    this.#table.begin(clusterId, partitions);
    const addresses = new Map(members.map(({ nodeId, rpcAddress }) => [nodeId, rpcAddress]));
    for (const { id, holderNodeId, epoch } of listing) {
      const address = addresses.get(holderNodeId);
      const isUsable = address !== undefined && address !== '' && this.#mayGoTo(address);
      if (isUsable) this.#table.learn(id, { address, epoch });
    }
    for (const address of this.#table.addresses) this.#connectionTo(address);
    this.#closeUnused();
  }

  /** The reply of any node. Undefined: there is no cluster, or no node answers now. */
  async #ask<Reply>(method: SentMethod<object, Reply>): Promise<Reply | undefined> {
    const { signal } = this.#closing;
    try {
      const { pool } = this.#parts;
      const connection = pool.pick() ?? this.#anyHolder() ?? (await pool.whenLive(ASK_MS, signal));
      return await unaryCall(connection, method, {}, { timeoutMs: ASK_MS, signal }, 0);
    } catch {
      return undefined;
    }
  }

  /** A holder that can answer if no endpoint is up. */
  #anyHolder(): Connection | undefined {
    return [...this.#connections.values()].find(({ isLive }) => isLive);
  }

  /** Waits for a promise that never rejects, but not for longer than this time. */
  #within(waited: Promise<void>, ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        cancelTimer();
        signal?.removeEventListener('abort', done);
        resolve();
      };
      const cancelTimer = this.#parts.timing.after(Math.max(0, ms), done, true);
      signal?.addEventListener('abort', done, { once: true });
      void waited.then(done);
      if (signal?.aborted) done();
    });
  }
}
