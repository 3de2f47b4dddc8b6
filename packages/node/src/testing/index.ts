export { BackupCopy, backupRequest } from './backup-copy.ts';
// For tests of other packages: an engine on virtual time, and on a simulated disk or a real one.

export type { EngineConfig } from '../engine/config.ts';
export type { Engine } from '../engine/engine.ts';
export { openEngine } from '../engine/open-engine.ts';
export { Family } from '../ports/store.ts';
export { openRocksStore } from '../store/rocks-store.ts';
export {
  EngineHarness,
  type EnqueueSpec,
  engineHarness,
  type HarnessOptions,
  pidsOf,
  type UpdateSpec,
} from './engine-harness.ts';
export { fingerprintOf } from './fingerprint.ts';
export { putSettings } from './put-settings.ts';
export { ALL_NODES, SimCluster, type SimNode } from './sim-cluster.ts';
export { SimDisk } from './sim-store.ts';
