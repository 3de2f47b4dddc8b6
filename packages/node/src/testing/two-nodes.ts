import type { PartitionId } from '@taskmaster/server/domain';
import { VirtualClock, VirtualTime } from '@taskmaster/server/testing';
import { HandOffs } from '../cluster/placement/handoff/hand-offs.ts';
import type {
  CallTarget,
  TransferCalls,
  TransferHandlers,
  TransferMethod,
} from '../cluster/placement/handoff/transfer-calls.ts';
import { EngineHarness, type HarnessOptions } from './engine-harness.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Called with each call before it is carried out and with its answer; whoever throws loses it. */
export interface LinkFaults {
  request?: (from: string, method: TransferMethod, request: TransferCalls[TransferMethod][0]) => void;
  answer?: (from: string, method: TransferMethod) => void;
  /** Whether the node that is called stands still: it does not answer in time. Asked when the call is made. */
  stands?: (method: TransferMethod) => boolean;
  /** How often a call is carried out. */
  copies?: (method: TransferMethod) => number;
}

/** One node of a hand-off test: an engine that can lose its power and start again. */
export class TransferNode {
  readonly name: string;
  readonly h: EngineHarness;
  readonly #net: TwoNodes;
  handOffs: HandOffs | undefined;

  constructor(name: string, net: TwoNodes, options: HarnessOptions) {
    this.name = name;
    this.#net = net;
    this.h = new EngineHarness(options);
  }

  get partitions() {
    return this.h.engine.partitions;
  }

  /** While somebody else moves time on. */
  async start(): Promise<void> {
    const { partitions } = await this.h.start();
    this.handOffs = new HandOffs({
      partitions,
      call: this.#net.callFrom(this.name),
      clock: this.h.clock,
      random: this.h.random,
      log: SILENT,
      nodeId: this.name,
      addressOf: (nodeId) => nodeId,
      bytesPerSecond: this.#net.bytesPerSecond,
    });
    this.handOffs.start();
  }

  /** Power loss. */
  lose(): void {
    this.#end();
    this.h.lose();
  }

  /** The process is killed; its machine goes on. */
  kill(): void {
    this.#end();
    this.h.kill();
  }

  #end(): void {
    this.handOffs?.stop();
    this.handOffs = undefined;
  }
}

/** Two nodes on one virtual time, `a` with every partition, and a link between them that can be made to fail. */
export class TwoNodes {
  readonly time = new VirtualTime();
  readonly faults: LinkFaults = {};
  readonly a: TransferNode;
  readonly b: TransferNode;
  /** Of hand-offs; 0: no bound. */
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

  /** Which of the two serve a partition. */
  serving(id: PartitionId): string[] {
    return [this.a, this.b]
      .filter(({ handOffs }) => handOffs !== undefined)
      .filter(({ partitions }) => partitions.holding(id)?.kind === 'serving')
      .map(({ name }) => name);
  }

  callFrom(from: string): CallTarget {
    return async (address, method, request, { timeoutMs, signal }) => {
      await this.#travel();
      signal?.throwIfAborted();
      if (this.faults.stands?.(method)) {
        await this.#travel(timeoutMs);
        throw new Error(`${address} does not answer`);
      }
      this.faults.request?.(from, method, request);
      const node = address === 'a' ? this.a : this.b;
      let answer: unknown;
      for (let copies = this.faults.copies?.(method) ?? 1; copies > 0; copies--) {
        const { handOffs } = node;
        if (!handOffs) throw new Error(`${address} is down`);
        const handler = handOffs.handlers[method] as TransferHandlers[TransferMethod] as (
          r: unknown,
        ) => Promise<unknown>;
        answer = await this.#orDown(node, handler(request));
      }
      await this.#travel();
      this.faults.answer?.(from, method);
      return answer as never;
    };
  }

  #travel(ms = 1): Promise<void> {
    return new Promise((resolve) => this.time.at((this.time.now() + ms) as ReturnType<VirtualTime['now']>, resolve));
  }

  /** What a node that lost its power was asked never settles; a connection would break. */
  async #orDown<T>(node: TransferNode, answer: Promise<T>): Promise<T> {
    const { handOffs } = node;
    let settled = false;
    const over = (): void => {
      settled = true;
    };
    answer.then(over, over);
    while (!settled) {
      if (node.handOffs !== handOffs) throw new Error(`${node.name} went down`);
      await this.#travel();
    }
    return answer;
  }
}
