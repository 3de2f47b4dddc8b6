import { join } from 'node:path';
import type { ClusterNode, MemberState, TaskMasterClient } from '@taskmaster/client';
import { ServerProcess } from './server-process.ts';

export interface ServersOptions {
  /** `one`: a node without a cluster. `cluster`: three nodes and a proxy. */
  readonly form: 'one' | 'cluster';
  /** Directory of their data and logs. */
  readonly dir: string;
  readonly say: (line: string) => void;
  /** Called when a server ends by itself or cannot be started again. */
  readonly onFailure: (error: Error) => void;
}

/** The state of a server. */
export interface ServerStatus {
  readonly name: string;
  /** Whether the process serves and, in a cluster, the other members see it alive. */
  readonly up: boolean;
  /** True until the server was up for the first time. */
  readonly isNew: boolean;
  /** What the cluster reports about the node. Undefined for a proxy and for a node without a cluster. */
  readonly member: { readonly state: MemberState; readonly held: number; readonly wanted: number } | undefined;
}

/** Number of nodes at the beginning. */
const NODES = 3;
/** The number of partitions never changes. The default of 1,024 is for larger clusters. */
const PARTITIONS = 64;
/** The demo stores some MiB, so the default reserve of 256 MiB on disk is not needed. */
const modest = ['--store-reserve-bytes', '16MiB'];
/** Timeout of a request for the state of the members. Without an answer the previous state is shown. */
const ANSWER_TIMEOUT = '500ms';

/**
 * The servers of the queues, as processes of this machine. In production each node has its own machine, and an orchestrator
 * starts it.
 */
export class Servers implements AsyncDisposable {
  readonly #options: ServersOptions;
  readonly #nodes: ServerProcess[] = [];
  #proxy: ServerProcess | undefined;
  readonly #seenUp = new Set<string>();
  #members: readonly ClusterNode[] = [];

  constructor(options: ServersOptions) {
    this.#options = options;
  }

  /** In the order of their starts, including nodes that have ended. */
  get nodes(): readonly ServerProcess[] {
    return this.#nodes;
  }

  /** The nodes whose processes serve. */
  get running(): readonly ServerProcess[] {
    return this.#nodes.filter(({ serves }) => serves);
  }

  /** Undefined without a cluster. */
  get proxy(): ServerProcess | undefined {
    return this.#proxy;
  }

  get isCluster(): boolean {
    return this.#options.form === 'cluster';
  }

  /**
   * The proxy and the nodes. Each answers for the whole cluster, so one address is enough. With several, the client
   * continues while some are down.
   */
  get endpoints(): readonly string[] {
    return [...(this.#proxy === undefined ? [] : [this.#proxy]), ...this.#nodes].map(({ endpoint }) => endpoint);
  }

  /** Resolves when all servers serve. Rejects if one does not start, or with the reason of the signal. */
  async start(signal: AbortSignal): Promise<void> {
    if (!this.isCluster) {
      await this.#node('node', []).start(signal);
      return;
    }
    const first = this.#node('node-1', ['--bootstrap', '--engine-partitions', String(PARTITIONS)]);
    await first.start(signal);
    const others = Array.from({ length: NODES - 1 }, () => this.#joiningNode());
    this.#proxy = this.#server('proxy', 'taskmaster-proxy', ['--join', first.endpoint], []);
    await Promise.all([this.#proxy, ...others].map((server) => server.start(signal)));
  }

  /** Starts another node, which joins the cluster. Resolves when it serves. It holds no partitions yet. */
  async addNode(signal: AbortSignal): Promise<ServerProcess> {
    const node = this.#joiningNode();
    await node.start(signal);
    return node;
  }

  /** The states of all servers. Never rejects. */
  async look(client: TaskMasterClient, signal: AbortSignal | undefined): Promise<readonly ServerStatus[]> {
    if (this.isCluster) {
      const known = await client.cluster.members({ timeout: ANSWER_TIMEOUT, signal }).catch(() => undefined);
      this.#members = known?.members.filter((member) => member.role === 'node') ?? this.#members;
    }
    const servers = this.#proxy === undefined ? this.#nodes : [...this.#nodes, this.#proxy];
    return servers.map(({ name, serves }) => {
      const member = this.#members.find((one) => one.name === name);
      const up = serves && (member?.alive ?? true);
      if (up) this.#seenUp.add(name);
      const isNew = !this.#seenUp.has(name);
      if (member === undefined) return { name, up, isNew, member };
      const { state, partitionsHeld: held, partitionsWanted: wanted } = member;
      return { name, up, isNew, member: { state, held, wanted } };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const servers = [...this.#nodes, ...(this.#proxy === undefined ? [] : [this.#proxy])];
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
  }

  /** The address of one member is enough to join. */
  #joiningNode(): ServerProcess {
    const [known] = this.running;
    if (known === undefined) throw new TypeError('there is no node to join');
    return this.#node(`node-${this.#nodes.length + 1}`, ['--join', known.endpoint]);
  }

  #node(name: string, how: readonly string[]): ServerProcess {
    const settings = ['--data-dir', join(this.#options.dir, name), ...modest];
    const atFirst = this.isCluster ? ['--name', name, ...how] : how;
    const node = this.#server(name, 'taskmaster-node', settings, atFirst);
    this.#nodes.push(node);
    return node;
  }

  #server(
    name: string,
    program: 'taskmaster-node' | 'taskmaster-proxy',
    settings: readonly string[],
    atFirst: readonly string[],
  ): ServerProcess {
    const logFile = join(this.#options.dir, `${name}.log`);
    const onEnd = (by: NodeJS.Signals | undefined): void => void this.#revive(server, by);
    const server = new ServerProcess({ name, program, settings, atFirst, logFile, onEnd });
    return server;
  }

  /** Starts a killed server again, as an orchestrator would. A user may kill one from a shell, too. */
  async #revive(server: ServerProcess, by: NodeJS.Signals | undefined): Promise<void> {
    const { say, onFailure } = this.#options;
    if (by === undefined) {
      onFailure(new Error(`${server.name} has ended by itself`));
      return;
    }
    say(`${server.name} was killed with ${by}, and is started again`);
    // `Symbol.asyncDispose` ends an attempt that still runs.
    await server.start(new AbortController().signal).catch(onFailure);
  }
}
