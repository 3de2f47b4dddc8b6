import { join } from 'node:path';
import { type ClusterPartitions, connect, type TaskMasterClient } from '@taskmaster/client';
import { eventually } from '../eventually.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../temporary-directory.ts';
import { type RunningNode, type StartNodeOptions, startNode } from './start-node.ts';

/** Number of partitions of a test cluster: few, so that all of them move quickly. */
export const PARTITIONS = 16;
const MODEST = [`--engine-partitions=${PARTITIONS}`, '--log-level=info'];

export interface StartClusterOptions {
  /** Number of nodes, named a, b, c and so on. Default 3. */
  readonly nodes?: number;
  readonly flags?: readonly string[];
  /** See `TestCluster.cli`. */
  readonly cli?: string;
}

/** The node processes of one cluster. Disposing of it kills them all. */
export class TestCluster implements AsyncDisposable {
  readonly #dir: TemporaryDirectory;
  readonly #flags: readonly string[];
  readonly #nodes = new Map<string, RunningNode>();
  /** Command line of the nodes that are started from now on. Undefined: that of this workspace. */
  cli: string | undefined;

  private constructor(dir: TemporaryDirectory, { flags = [], cli }: StartClusterOptions) {
    this.#dir = dir;
    this.#flags = flags;
    this.cli = cli;
  }

  /** Resolves when every node is an active member. Partitions may still be moving. */
  static async start(options: StartClusterOptions = {}): Promise<TestCluster> {
    const { nodes = 3 } = options;
    const cluster = new TestCluster(await temporaryDirectory(), options);
    try {
      for (const name of 'abcdefghij'.slice(0, nodes)) await cluster.add(name);
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
    return cluster;
  }

  /** Starts a new member. The first one begins the cluster. */
  async add(name: string, flags: readonly string[] = []): Promise<RunningNode> {
    const { endpoints } = this;
    const place = endpoints.length === 0 ? ['--bootstrap'] : [`--join=${endpoints.join(',')}`];
    return this.start(name, [`--name=${name}`, ...place, ...flags]);
  }

  /** Starts the node with that name again, with its directory and its ports. */
  async start(name: string, flags: readonly string[] = []): Promise<RunningNode> {
    const earlier = this.#nodes.get(name);
    const ports = earlier && [`--http-port=${earlier.httpPort}`, `--gossip-port=${earlier.gossipPort}`];
    const options: StartNodeOptions = {
      dir: this.dirOf(name),
      cli: this.cli,
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

  /** Resolves with the partitions, when each is held by the node that should hold it, and each running node has some. */
  async inPlace(): Promise<ClusterPartitions> {
    await using client = await this.connect();
    const names = [...this.#nodes].filter(([, { process }]) => process.isRunning).map(([name]) => name);
    return await eventually(
      async () => {
        const told = await client.cluster.partitions();
        const astray = told.partitions.filter(({ holder, wanted }) => holder?.name !== wanted).map(({ id }) => id);
        const holders = new Set(told.partitions.map(({ holder }) => holder?.name));
        const empty = names.filter((name) => !holders.has(name));
        if (astray.length + empty.length > 0) throw new Error(`partitions ${astray} are astray; ${empty} have none`);
        return told;
      },
      { withinMs: 60_000 },
    );
  }

  /** Connects a client to all nodes. */
  connect(): Promise<TaskMasterClient> {
    return connect(this.endpoints);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.#nodes.values()) await node[Symbol.asyncDispose]();
    await this.#dir[Symbol.asyncDispose]();
  }
}
