import { setTimeout as delay } from 'node:timers/promises';
import { connect, type TaskMasterClient } from '@taskmaster/client';
import { partitionOf } from '@taskmaster/proto';
import type { Processes, ServerProcess } from './processes.ts';

/** How long members may take to agree, or to hand everything over, in ms. */
const SETTLE_MS = 10 * 60_000;
const POLL_MS = 100;
const NAMES = 'abcdefghij';

/** A partition that went from one node to another, as the log of the node tells that held it. */
export interface HandOff {
  readonly from: string;
  readonly partition: number;
  /** Node id. */
  readonly to: string;
  readonly frozenMs: number;
  /** Of these, until the target could be told to take it. */
  readonly toldMs: number;
  readonly rows: number;
  readonly bytes: number;
  /** On this process's clock, in ms. */
  readonly at: number;
}

interface Member {
  readonly dir: string;
  readonly process: ServerProcess;
}

/** Nodes of one cluster, each in a process of its own, with names from a on. */
export class Cluster {
  readonly #processes: Processes;
  readonly #flags: readonly string[];
  readonly #members = new Map<string, Member>();
  /** In the order in which they ended. */
  readonly handOffs: HandOff[] = [];
  #heard: () => void = () => {};

  private constructor(processes: Processes, flags: readonly string[]) {
    this.#processes = processes;
    this.#flags = flags;
  }

  /** Resolves when every node is a member and holds its part. */
  static async start(processes: Processes, nodes: number, flags: readonly string[] = []): Promise<Cluster> {
    const cluster = new Cluster(processes, flags);
    for (const name of NAMES.slice(0, nodes)) await cluster.add(name);
    await cluster.settled();
    return cluster;
  }

  /** A new member; the first one begins the cluster. */
  async add(name: string, flags: readonly string[] = []): Promise<ServerProcess> {
    return this.#start(name, await this.#processes.directory(), flags);
  }

  /** Starts a node that has ended, on its directory and its ports. */
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

  /** Resolves when all running nodes are active members and every partition is where it should be. */
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

  /** How many partitions each node holds. */
  async held(): Promise<ReadonlyMap<string, number>> {
    await using client = await this.connect();
    const { members } = await client.cluster.members();
    const nodes = members.flatMap((one) => (one.role === 'node' && one.state === 'active' ? [one] : []));
    return new Map(nodes.map(({ name, partitionsHeld }) => [name, partitionsHeld]));
  }

  /** Has a member leave; resolves when that has begun. */
  async beginDrain(name: string): Promise<void> {
    await using client = await this.connect();
    await client.cluster.drain(name);
  }

  /** Has a member leave; resolves when its process has ended. */
  async drain(name: string): Promise<void> {
    await this.beginDrain(name);
    await this.node(name).end(SETTLE_MS);
  }

  /** Resolves when so many partitions have been handed over. */
  async handedOver(count: number): Promise<void> {
    while (this.handOffs.length < count) {
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
    }
  }

  /** Groups whose partition is held by a node. */
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
    // Each hand-off is told of at this level only.
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

/** Asks again and again until the answer is yes. */
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
