import { assertDurability, DEFAULT_ENGINE_CONFIG, type EngineConfig } from './config.ts';
import { Engine } from './engine.ts';
import type { EngineLog, OpenedEngineDeps } from './engine-deps.ts';
import { Holdings } from './holdings.ts';
import { openNode, readHolderRows } from './open-state.ts';
import type { SharedHolders } from './ports/shared-holders.ts';
import type { GroupLimitsOf } from './queues/group-usage.ts';

export interface EngineDeps extends Pick<OpenedEngineDeps, 'store' | 'clock' | 'random'> {
  readonly config?: Partial<EngineConfig>;
  /** True in a cluster: the engine serves only the partitions that it is known to hold. Default false: it holds all. */
  readonly clustered?: boolean;
  /** Who holds the partitions, if several nodes share the store. The engine then opens none of them at its start. */
  readonly shared?: SharedHolders | undefined;
  readonly log?: EngineLog;
  /** The quotas of groups. Default: none. */
  readonly groupLimits?: GroupLimitsOf;
  /**
   * For development: the events of all groups are kept, also of those that have no reader yet, and `enqueued` tells the beginning
   * of the data. Default false.
   */
  readonly tellsAll?: boolean;
  readonly onReplay?: OpenedEngineDeps['onReplay'];
  readonly onRun?: OpenedEngineDeps['onRun'];
  readonly onBulkRunEnd?: OpenedEngineDeps['onBulkRunEnd'];
}

const SILENT: EngineLog = { info: () => {}, warn: () => {}, error: () => {} };

/**
 * Opens the engine of a store and recovers its state. Throws `StoreCorruptError` for damaged rows, and a `TypeError` for a
 * durability that does not exist.
 */
export async function openEngine(deps: EngineDeps): Promise<Engine> {
  const { store, clock, random, clustered = false, log = SILENT, onReplay = () => {} } = deps;
  const { groupLimits = () => undefined, onRun = () => {}, onBulkRunEnd = () => {}, shared, tellsAll = false } = deps;
  const wanted = { ...DEFAULT_ENGINE_CONFIG, ...deps.config };
  assertDurability(wanted.durability);
  const config = { ...wanted, partitions: await openNode(store, clock, wanted.partitions, shared !== undefined) };
  const rows = clustered && shared === undefined ? await readHolderRows(store) : undefined;
  const holdings = new Holdings(shared === undefined ? rows : new Map());
  const heard = { onReplay, onRun, onBulkRunEnd };
  const engine = new Engine({ store, clock, random, log, ...heard, config, holdings, groupLimits, shared, tellsAll });
  await engine.start();
  return engine;
}
