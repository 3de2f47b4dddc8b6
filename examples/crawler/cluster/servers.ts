import { join } from 'node:path';
import type { ClusterNode, MemberState, TaskMasterClient } from '@taskmaster/client';
import { ServerProcess } from './server-process.ts';

export interface ServersOptions {
  /** `one`: a node that stands alone. `cluster`: three nodes, and a proxy in front of them. */
  readonly form: 'one' | 'cluster';
  /** For their data and their logs. */
  readonly dir: string;
  readonly say: (line: string) => void;
  /** One of them has ended by itself, or does not start again. */
  readonly onFailure: (error: Error) => void;
}

/** How a server is doing. */
export interface ServerStatus {
  readonly name: string;
  /** Whether its process serves, and, in a cluster, the other members agree. */
  readonly up: boolean;
  /** It has not been up yet: it starts, and joins. */
  readonly isNew: boolean;
  /** Of a node of a cluster, as the cluster says. */
  readonly member: { readonly state: MemberState; readonly held: number; readonly wanted: number } | undefined;
}

/** The nodes that a cluster is begun with. */
const NODES = 3;
/** For ever, since partitions are what moves. By default there are 1,024, for larger clusters and more groups. */
const PARTITIONS = 64;
/** The demo stores some MiB, so no node need keep a quarter of a GiB of the disk in reserve. */
const modest = ['--store-reserve-bytes', '16MiB'];
/** Members that are silent for so long are shown as they were. */
const ANSWER_TIMEOUT = '500ms';

/** What serves the queues: processes of this machine. In earnest each node has a machine, and an orchestrator starts it. */
export class Servers implements AsyncDisposable {
  readonly #options: ServersOptions;
  readonly #nodes: ServerProcess[] = [];
  #proxy: ServerProcess | undefined;
  readonly #seenUp = new Set<string>();
  #members: readonly ClusterNode[] = [];

  constructor(options: ServersOptions) {
    this.#options = options;
  }

  /** In the order of their starts, with those that have ended. */
  get nodes(): readonly ServerProcess[] {
    return this.#nodes;
  }

  /** The nodes whose processes serve. */
  get running(): readonly ServerProcess[] {
    return this.#nodes.filter(({ serves }) => serves);
  }

  /** Of a cluster. */
  get proxy(): ServerProcess | undefined {
    return this.#proxy;
  }

  get isCluster(): boolean {
    return this.#options.form === 'cluster';
  }

  /**
   * Where clients go: to the proxy and to the nodes. Each of them answers for the whole cluster, so that a client needs but
   * one; with several it does not matter which are down.
   */
  get endpoints(): readonly string[] {
    return [...(this.#proxy === undefined ? [] : [this.#proxy]), ...this.#nodes].map(({ endpoint }) => endpoint);
  }

  /** Resolves when all serve. @throws when one does not; the signal's reason when it is aborted. */
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

  /** Starts one more node, which joins the cluster. Resolves when it serves; it holds nothing then. */
  async addNode(signal: AbortSignal): Promise<ServerProcess> {
    const node = this.#joiningNode();
    await node.start(signal);
    return node;
  }

  /** How they are doing. Never rejects. */
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

  /** One member's address is enough to join. */
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

  /** Somebody at the keyboard may kill one, too. It is started again, as an orchestrator would. */
  async #revive(server: ServerProcess, by: NodeJS.Signals | undefined): Promise<void> {
    const { say, onFailure } = this.#options;
    if (by === undefined) {
      onFailure(new Error(`${server.name} has ended by itself`));
      return;
    }
    say(`${server.name} was killed with ${by}, and is started again`);
    // Disposing of it is what ends an attempt that nobody waits for any more.
    await server.start(new AbortController().signal).catch(onFailure);
  }
}
