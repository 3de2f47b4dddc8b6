import type { PartitionId } from '../domain/ids.ts';
import { SURE_MS } from '../ports/shared-holders.ts';
import { VirtualClock, VirtualTime } from '../ports/virtual-clock.ts';
import { EngineHarness, type HarnessOptions } from './engine-harness.ts';
import { SeededRandom } from './seeded-random.ts';
import { type SimConditions, SimSharedDatabase } from './sim-shared-database.ts';

export interface SharedEnginesOptions {
  readonly seed?: number;
  readonly partitions?: number;
  readonly conditions?: Partial<SimConditions>;
  readonly config?: HarnessOptions['config'];
}

/** Engines `a` and `b` on one simulated database and one virtual time. Neither holds a partition at first. */
export class SharedEngines {
  readonly time = new VirtualTime();
  readonly database: SimSharedDatabase;
  readonly a: EngineHarness;
  readonly b: EngineHarness;

  constructor({ seed = 1, partitions = 4, conditions = {}, config }: SharedEnginesOptions = {}) {
    const { time } = this;
    const random = new SeededRandom(seed);
    this.database = new SimSharedDatabase({ time, random, partitions, conditions });
    const engine = (name: string): EngineHarness =>
      new EngineHarness({
        seed: random.uint32(),
        clustered: true,
        shared: { database: this.database, name },
        config: { ...config, partitions },
        clock: new VirtualClock({ time, machine: name }),
      });
    this.a = engine('a');
    this.b = engine('b');
  }

  async start(): Promise<void> {
    await this.run(this.a.start());
    await this.run(this.b.start());
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.time.run(promise);
  }

  /** Takes the partition, if nobody holds it, and opens it. Resolves with whether the engine holds it. */
  async take(h: EngineHarness, id: PartitionId): Promise<boolean> {
    const { holders } = h.process ?? {};
    if (holders === undefined) throw new Error('the engine is down');
    await holders.take([id]);
    return this.open(h, id);
  }

  /** Opens the partition, if the engine holds it. */
  async open(h: EngineHarness, id: PartitionId): Promise<boolean> {
    const found = (await h.process?.holders.read())?.partitions[id];
    if (found === undefined || found.holder !== h.process?.name) return false;
    const waitMs = found.fencedMs === undefined ? 0 : Math.max(0, SURE_MS - found.fencedMs);
    await h.engine.partitions.shared?.open([{ id, epoch: found.epoch, waitMs }]);
    return true;
  }

  /** Fences a node for another one. */
  async fence(by: EngineHarness, name: string): Promise<boolean> {
    const { holders } = by.process ?? {};
    const node = (await holders?.read())?.nodes.get(name);
    return node !== undefined && (await holders?.fence(node)) === true;
  }
}
