import type { PartitionId } from '@taskmaster/engine/domain';
import { EngineHarness, type HarnessOptions, VirtualClock, VirtualTime } from '@taskmaster/engine/testing';
import type { PeerHandlers } from '@taskmaster/server/ports';
import { servePeer } from '@taskmaster/server/testing';
import { HandOffs } from '../cluster/placement/handoff/hand-offs.ts';
import { FaultyLink, type LinkedRun, type LinkFaults } from './faulty-link.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** A node of a hand-off test: an engine that can lose power and restart. */
export class TransferNode {
  readonly name: string;
  readonly h: EngineHarness;
  readonly #net: TwoNodes;
  handOffs: HandOffs | undefined;
  /** What other nodes call; undefined while the node is down. */
  run: LinkedRun | undefined;
  /** How long callers waited in each completed hand-off from this node, in ms. */
  readonly freezes: number[] = [];

  constructor(name: string, net: TwoNodes, options: HarnessOptions) {
    this.name = name;
    this.#net = net;
    this.h = new EngineHarness(options);
  }

  get partitions() {
    return this.h.engine.partitions;
  }

  /** Starts the node. The caller must advance the time until it resolves. */
  async start(): Promise<void> {
    const { partitions } = await this.h.start();
    this.handOffs = new HandOffs({
      partitions,
      call: this.#net.link.callFrom(this.name),
      clock: this.h.clock,
      random: this.h.random,
      log: SILENT,
      nodeId: this.name,
      addressOf: (nodeId) => nodeId,
      bytesPerSecond: this.#net.bytesPerSecond,
      handedOver: (frozenMs) => this.freezes.push(frozenMs),
    });
    const { handlers } = this.handOffs;
    // Nothing else is asked in these tests.
    this.run = { serve: servePeer(() => handlers as PeerHandlers, SILENT) };
    this.handOffs.start();
  }

  /** Simulates a power loss. */
  lose(): void {
    this.#end();
    this.h.lose();
  }

  /** Simulates a kill of the process. */
  kill(): void {
    this.#end();
    this.h.kill();
  }

  #end(): void {
    this.handOffs?.stop();
    this.handOffs = undefined;
    this.run = undefined;
  }
}

/** Two nodes on one virtual time with a link that can fail. Node `a` holds all partitions at the start. */
export class TwoNodes {
  readonly time = new VirtualTime();
  readonly faults: LinkFaults = {};
  readonly link: FaultyLink;
  readonly a: TransferNode;
  readonly b: TransferNode;
  /** Limit for transfers. 0: no limit. */
  readonly bytesPerSecond: number;

  constructor(options: HarnessOptions & { readonly bIsAheadMs?: number; readonly bytesPerSecond?: number } = {}) {
    const { bIsAheadMs = 0, bytesPerSecond = 0, seed = 1, ...rest } = options;
    this.bytesPerSecond = bytesPerSecond;
    const config = { partitions: 4, ...options.config };
    const of = (machine: string, wallAheadMs: number, ownSeed: number): HarnessOptions => {
      const clock = new VirtualClock({ time: this.time, machine, wallAheadMs });
      return { ...rest, config, clustered: true, seed: ownSeed, clock };
    };
    this.a = new TransferNode('a', this, of('a', 0, seed));
    this.link = new FaultyLink({
      time: this.time,
      faults: this.faults,
      runAt: (address) => (address === 'a' ? this.a : this.b).run,
    });
    this.b = new TransferNode('b', this, of('b', bIsAheadMs, seed + 1));
  }

  async open(): Promise<void> {
    await this.run(this.a.start());
    await this.run(this.b.start());
    const claims = [0, 1, 2, 3].map((id) => ({ id: id as PartitionId, epoch: 1 }));
    await this.run(this.a.partitions.claim(claims));
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.time.run(promise);
  }

  /** Names of the nodes that serve the partition. */
  serving(id: PartitionId): string[] {
    return [this.a, this.b]
      .filter(({ handOffs }) => handOffs !== undefined)
      .filter(({ partitions }) => partitions.holding(id)?.kind === 'serving')
      .map(({ name }) => name);
  }
}
