import { join } from 'node:path';
import { connect, type TaskMasterClient } from '@taskmaster/client';
import { type RunningNode, type StartNodeOptions, startNode } from './start-node.ts';
import { type TemporaryDirectory, temporaryDirectory } from './temporary-directory.ts';

/** Little that keeps disks busy, and few partitions, so that moves of all of them are quick. */
const MODEST = ['--store-reserve-bytes=1MiB', '--engine-partitions=32', '--log-level=info'];

export interface StartClusterOptions {
  /** Default 3, named a, b, c and so on. */
  readonly nodes?: number;
  readonly flags?: readonly string[];
}

/** Node processes that are one cluster. Disposing of it kills them all. */
export class TestCluster implements AsyncDisposable {
  readonly #dir: TemporaryDirectory;
  readonly #flags: readonly string[];
  readonly #nodes = new Map<string, RunningNode>();

  private constructor(dir: TemporaryDirectory, flags: readonly string[]) {
    this.#dir = dir;
    this.#flags = flags;
  }

  /** Resolves when every node is an active member. Partitions may still be on their way. */
  static async start({ nodes = 3, flags = [] }: StartClusterOptions = {}): Promise<TestCluster> {
    const cluster = new TestCluster(await temporaryDirectory(), flags);
    try {
      for (const name of 'abcdefghij'.slice(0, nodes)) await cluster.add(name);
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
    return cluster;
  }

  /** A new member; the first one begins the cluster. */
  async add(name: string, flags: readonly string[] = []): Promise<RunningNode> {
    const { endpoints } = this;
    const place = endpoints.length === 0 ? ['--bootstrap'] : [`--join=${endpoints.join(',')}`];
    return this.start(name, [`--name=${name}`, ...place, ...flags]);
  }

  /** Starts the node of that name, with its directory, on the ports it had. */
  async start(name: string, flags: readonly string[] = []): Promise<RunningNode> {
    const earlier = this.#nodes.get(name);
    const ports = earlier && [`--http-port=${earlier.httpPort}`, `--gossip-port=${earlier.gossipPort}`];
    const options: StartNodeOptions = {
      dir: this.dirOf(name),
      grpcPort: earlier?.grpcPort ?? 0,
      flags: [...MODEST, ...(ports ?? ['--gossip-port=0']), ...this.#flags, ...flags],
    };
    const node = await startNode(options);
    this.#nodes.set(name, node);
    return node;
  }

  dirOf(name: string): string {
    return join(this.#dir.path, name);
  }

  node(name: string): RunningNode {
    const node = this.#nodes.get(name);
    if (node === undefined) throw new Error(`there is no node ${name}`);
    return node;
  }

  get running(): RunningNode[] {
    return [...this.#nodes.values()].filter(({ process }) => process.isRunning);
  }

  get endpoints(): string[] {
    return this.running.map(({ endpoint }) => endpoint);
  }

  /** A client of all nodes. */
  connect(): Promise<TaskMasterClient> {
    return connect(this.endpoints);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.#nodes.values()) await node[Symbol.asyncDispose]();
    await this.#dir[Symbol.asyncDispose]();
  }
}
