import { ClusterServiceService as clusterService, type ListMembersResponse, type Partition } from '@taskmaster/proto';
import { cancelled } from '../values/errors.ts';
import type { Routing } from '../values/options.ts';
import type { Connection } from './connection.ts';
import type { EndpointPool } from './endpoint-pool.ts';
import { HolderTable, readDenial } from './holder-table.ts';
import type { CancelTimer, Timing } from './timing.ts';
import { type UnaryMethod, unaryCall } from './unary-call.ts';

/** What a call is about: the queues whose groups decide where it goes. Undefined: any node answers. */
export type QueueNames = string | readonly string[] | undefined;

export interface HolderRoutesParts {
  readonly routing: Routing;
  readonly pool: EndpointPool;
  /** Connects to a node. */
  readonly open: (address: string) => Connection;
  readonly timing: Timing;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

/** Between two looks at the whole table, in ms; a fifth more or less, so that clients do not ask all at once. */
const REFRESH_MS = 30_000;
const REFRESH_SPREAD = 0.2;
/** Between two looks, in ms, while there is no answer or no cluster. */
const REFRESH_FAILED_MS = 5_000;
/** Least time between two looks, in ms, however much changes. */
const REFRESH_LEAST_MS = 1_000;
/** One question about the cluster; nodes wait two seconds for each other. */
const ASK_MS = 5_000;
/** How long calls wait until it is known how many partitions there are, in ms. */
const LEARNING_MS = 1_000;

/**
 * Chooses connections for calls: that of the node that holds the group, where that is known and it is up, else one of the
 * endpoints.
 *
 * What is known comes from nodes that were asked and do not hold the group and, with `direct`, from the table that every
 * node has. While nothing was told, which with proxies is always, this costs nothing.
 */
export class HolderRoutes {
  readonly #parts: HolderRoutesParts;
  readonly #table = new HolderTable();
  /** To holders that are not among the endpoints. */
  readonly #connections = new Map<string, Connection>();
  readonly #closing = new AbortController();
  /** The number of partitions is being asked for, without which no group can be looked up. */
  #learning: Promise<void> | undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;
  #refreshAt = Number.POSITIVE_INFINITY;
  #cancelTimer: CancelTimer | undefined;

  constructor(parts: HolderRoutesParts) {
    this.#parts = parts;
    if (parts.routing === 'direct') this.#refreshBy(parts.timing.now());
  }

  /** A connection that is up; undefined when none is, or when waiting a little finds the right one. */
  pick(queues: QueueNames): Connection | undefined {
    const { pool, timing } = this.#parts;
    if (queues === undefined || this.#table.isEmpty) return pool.pick();
    if (this.#learning !== undefined) return undefined;
    const now = timing.now();
    const address = this.#table.addressOf(queues, now);
    if (address === undefined) return pool.pick() ?? this.#distrusted(queues);
    const holder = this.#connectionTo(address);
    if (!holder.isLive) return holder.opening === undefined ? pool.pick() : undefined;
    // A holder that starts or stops is asked over a proxy, which waits for it, if there is one.
    return holder.isResting(now) ? (pool.pick() ?? holder) : holder;
  }

  /** As `pick`, and waits. @throws UnavailableError when no endpoint is up in time; Cancelled. */
  async whenLive(
    queues: QueueNames,
    timeoutMs: number | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Connection> {
    const { pool, timing } = this.#parts;
    const start = timing.now();
    const left = (): number | undefined => timeoutMs && Math.max(0, timeoutMs - (timing.now() - start));
    // First for how many partitions there are, then for the connection to the holder.
    for (let step = 0; step < 2; step++) {
      const over = this.#overSoon(queues);
      if (over !== undefined) await this.#within(over, Math.min(LEARNING_MS, left() ?? LEARNING_MS), signal);
    }
    if (signal?.aborted) throw cancelled(signal);
    return this.pick(queues) ?? pool.whenLive(left(), signal);
  }

  /** A node said that it does not hold a group. */
  denied(connection: Connection, metadata: Readonly<Record<string, string>>): void {
    const denial = readDenial(metadata);
    const { routing, timing } = this.#parts;
    if (denial === undefined || this.#closing.signal.aborted) return;
    const isNews = this.#table.denied(connection.endpoint, denial.partition, denial.holder, timing.now());
    if (isNews && denial.holder !== undefined) {
      this.#connectionTo(denial.holder.address);
      this.#closeUnused();
    }
    if (this.#table.partitions === undefined) this.#learning ??= this.#learn();
    if (routing === 'direct') this.#refreshSoon();
  }

  /** An endpoint or a holder was lost: what it held may be elsewhere soon. */
  lost(): void {
    if (this.#parts.routing === 'direct') this.#refreshSoon();
  }

  close(): void {
    this.#closing.abort();
    this.#cancelTimer?.();
    for (const connection of this.#connections.values()) connection.close();
    this.#connections.clear();
  }

  /** What keeps `pick` from choosing for the moment. */
  #overSoon(queues: QueueNames): Promise<void> | undefined {
    if (queues === undefined || this.#table.isEmpty) return undefined;
    if (this.#learning !== undefined) return this.#learning;
    const address = this.#table.addressOf(queues, this.#parts.timing.now());
    return address === undefined ? undefined : this.#connectionTo(address).opening;
  }

  /** A holder that denied it is asked again when there is nobody else. */
  #distrusted(queues: string | readonly string[]): Connection | undefined {
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

  /** Connections to nodes that hold nothing any more; those with calls under way are left to finish them. */
  #closeUnused(): void {
    const { addresses } = this.#table;
    for (const [address, connection] of this.#connections) {
      if (addresses.has(address) || !connection.isIdle) continue;
      this.#connections.delete(address);
      connection.close();
    }
  }

  /** Without an answer the next node that does not hold a group has it asked again. */
  async #learn(): Promise<void> {
    const members = await this.#ask(clusterService.listMembers);
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
    const members = await this.#ask(clusterService.listMembers);
    const listing = members && (await this.#ask(clusterService.listPartitions));
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
      if (address !== undefined && address !== '') this.#table.learn(id, { address, epoch });
    }
    for (const address of this.#table.addresses) this.#connectionTo(address);
    this.#closeUnused();
  }

  /** Undefined: there is no cluster, or nobody who answers. A later question may be answered. */
  async #ask<Reply>(method: UnaryMethod<object, Reply>): Promise<Reply | undefined> {
    const { signal } = this.#closing;
    try {
      const { pool } = this.#parts;
      const connection = pool.pick() ?? this.#anyHolder() ?? (await pool.whenLive(ASK_MS, signal));
      return await unaryCall(connection, method, {}, { timeoutMs: ASK_MS, signal }, 0);
    } catch {
      return undefined;
    }
  }

  /** While all endpoints are out of reach, the holders know as much. */
  #anyHolder(): Connection | undefined {
    return [...this.#connections.values()].find(({ isLive }) => isLive);
  }

  /** Waits for something that never fails, but not for longer than this. */
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
