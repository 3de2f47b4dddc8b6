import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from './config.ts';
import { Engine } from './engine.ts';
import type { EngineLog, OpenedEngineDeps } from './engine-deps.ts';
import { Holdings } from './holdings.ts';
import { openNode, readHolderRows } from './open-state.ts';
import type { GroupLimitsOf } from './queues/group-usage.ts';

export interface EngineDeps extends Pick<OpenedEngineDeps, 'store' | 'clock' | 'random'> {
  readonly config?: Partial<EngineConfig>;
  /** True in a cluster: the engine serves only the partitions that it is known to hold. Default false: it holds all. */
  readonly clustered?: boolean;
  readonly log?: EngineLog;
  /** The quotas of groups. Default: none. */
  readonly groupLimits?: GroupLimitsOf;
  readonly onReplay?: OpenedEngineDeps['onReplay'];
  readonly onRun?: OpenedEngineDeps['onRun'];
}

const SILENT: EngineLog = { info: () => {}, warn: () => {}, error: () => {} };

/** Opens the engine of a store and recovers its state. Throws `StoreCorruptError` for damaged rows. */
export async function openEngine(deps: EngineDeps): Promise<Engine> {
  const { store, clock, random, clustered = false, log = SILENT, onReplay = () => {} } = deps;
  const { groupLimits = () => undefined, onRun = () => {} } = deps;
  const wanted = { ...DEFAULT_ENGINE_CONFIG, ...deps.config };
  const config = { ...wanted, partitions: await openNode(store, clock, wanted.partitions) };
  const holdings = new Holdings(clustered ? await readHolderRows(store) : undefined);
  const engine = new Engine({ store, clock, random, log, onReplay, onRun, config, holdings, groupLimits });
  await engine.start();
  return engine;
}
