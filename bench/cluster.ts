import { setTimeout as delay } from 'node:timers/promises';
import { connect, type TaskMasterClient } from '@taskmaster/client';
import { partitionOf } from '@taskmaster/proto';
import type { Processes, ServerProcess } from './processes.ts';

/** Limit of the time until members agree, or until a member has handed everything over, in ms. */
const SETTLE_MS = 10 * 60_000;
const POLL_MS = 100;
const NAMES = 'abcdefghij';

/** A hand-off, from the log of the node that held the partition. */
export interface HandOff {
  readonly from: string;
  readonly partition: number;
  /** Node id. */
  readonly to: string;
  readonly frozenMs: number;
  /** The part of `frozenMs` before the target was asked to take the partition. */
  readonly toldMs: number;
  readonly rows: number;
  readonly bytes: number;
  /** Time of the log line by this process's clock, in ms. */
  readonly at: number;
}

interface Member {
  readonly dir: string;
  readonly process: ServerProcess;
}

/** The nodes of one cluster, each in its own process, named a, b, c and so on. */
export class Cluster {
  readonly #processes: Processes;
  readonly #flags: readonly string[];
  readonly #members = new Map<string, Member>();
  /** Hand-offs in the order in which they ended. */
  readonly handOffs: HandOff[] = [];
  #heard: () => void = () => {};

  private constructor(processes: Processes, flags: readonly string[]) {
    this.#processes = processes;
    this.#flags = flags;
  }

  /** Resolves when every node is a member and holds its share. */
  static async start(processes: Processes, nodes: number, flags: readonly string[] = []): Promise<Cluster> {
    const cluster = new Cluster(processes, flags);
    for (const name of NAMES.slice(0, nodes)) await cluster.add(name);
    await cluster.settled();
    return cluster;
  }

  /** Starts a new member. The first one begins the cluster. */
  async add(name: string, flags: readonly string[] = []): Promise<ServerProcess> {
    return this.#start(name, await this.#processes.directory(), flags);
  }

  /** Restarts a node with its directory and its ports. */
  async restart(name: string, flags: readonly string[] = []): Promise<ServerProcess> {
    const { dir, process } = this.#member(name);
    const { grpc, http = '', gossip = '' } = process.ready;
    const ports = [`--grpc-port=${portOf(grpc)}`, `--http-port=${portOf(http)}`, `--gossip-port=${portOf(gossip)}`];
    return this.#start(name, dir, [...ports, ...flags]);
  }

  node(name: string): ServerProcess {
    return this.#member(name).process;
  }

  get running(): readonly { readonly name: string; readonly process: ServerProcess }[] {
    return [...this.#members].map(([name, { process }]) => ({ name, process })).filter((one) => one.process.isRunning);
  }

  get endpoints(): readonly string[] {
    return this.running.map(({ process }) => process.endpoint);
  }

  get pids(): readonly number[] {
    return this.running.map(({ process }) => process.pid);
  }

  connect(): Promise<TaskMasterClient> {
    return connect(this.endpoints);
  }

  /** Resolves when all running nodes are active members and every partition is at the node that the ring assigns. */
  async settled(): Promise<void> {
    await using client = await this.connect();
    await until('hold its part', async () => {
      const { members, partitions } = await client.cluster.members();
      const active = members.filter((one) => one.role === 'node' && one.state === 'active' && one.alive);
      const nodes = active.flatMap((one) => (one.role === 'node' ? [one] : []));
      const held = nodes.reduce((sum, { partitionsHeld }) => sum + partitionsHeld, 0);
      const atHome = nodes.every(({ partitionsHeld, partitionsWanted }) => partitionsHeld === partitionsWanted);
      return nodes.length === this.running.length && held === partitions && atHome;
    });
  }

  /** Number of partitions that each node holds, by its name. */
  async held(): Promise<ReadonlyMap<string, number>> {
    await using client = await this.connect();
    const { members } = await client.cluster.members();
    const nodes = members.flatMap((one) => (one.role === 'node' && one.state === 'active' ? [one] : []));
    return new Map(nodes.map(({ name, partitionsHeld }) => [name, partitionsHeld]));
  }

  /** Lets a member leave. Resolves when that has begun. */
  async beginDrain(name: string): Promise<void> {
    await using client = await this.connect();
    await client.cluster.drain(name);
  }

  /** Lets a member leave. Resolves when its process has ended. */
  async drain(name: string): Promise<void> {
    await this.beginDrain(name);
    await this.node(name).end(SETTLE_MS);
  }

  /** Resolves when `count` partitions have been handed over. */
  async handedOver(count: number): Promise<void> {
    while (this.handOffs.length < count) {
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
    }
  }

  /** `count` groups whose partitions the node holds. */
  async groupsOf(name: string, count: number): Promise<readonly string[]> {
    await using client = await this.connect();
    const { partitions } = await client.cluster.partitions();
    const mine = new Set(partitions.filter(({ holder }) => holder?.name === name).map(({ id }) => id));
    const groups: string[] = [];
    for (let number = 0; groups.length < count; number++) {
      if (mine.has(partitionOf(`g${number}`, partitions.length))) groups.push(`g${number}`);
    }
    return groups;
  }

  async stop(): Promise<void> {
    await Promise.all(this.running.map(({ process }) => process.stop()));
  }

  async #start(name: string, dir: string, flags: readonly string[]): Promise<ServerProcess> {
    const { endpoints } = this;
    const place = endpoints.length === 0 ? ['--bootstrap'] : [`--join=${endpoints.join(',')}`];
    // Hand-offs are logged only at this level.
    const own = ['--log-level=debug', `--name=${name}`, '--gossip-port=0', ...place];
    const all = [...own, ...this.#flags, ...flags];
    const process = await this.#processes.node(dir, all, (line) => this.#hear(name, line));
    this.#members.set(name, { dir, process });
    return process;
  }

  #hear(from: string, line: string): void {
    if (!line.includes('"handed a partition over"')) return;
    this.handOffs.push({ ...(JSON.parse(line) as Omit<HandOff, 'from' | 'at'>), from, at: performance.now() });
    this.#heard();
  }

  #member(name: string): Member {
    const member = this.#members.get(name);
    if (member === undefined) throw new TypeError(`there is no node ${name}`);
    return member;
  }
}

/** Repeats the check until it returns true. */
export async function until(what: string, isSo: () => Promise<boolean> | boolean, everyMs = POLL_MS): Promise<void> {
  const end = performance.now() + SETTLE_MS;
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`the cluster did not ${what} within ${SETTLE_MS} ms`);
    await delay(everyMs);
  }
}

export function portOf(address: string): string {
  return /:(\d+)\/?$/.exec(address)?.[1] ?? '0';
}
