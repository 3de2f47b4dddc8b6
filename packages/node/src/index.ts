/**
 * A TaskMaster node.
 *
 * - `startNode(settings)` → `RunningNode`: runs a node in this process, as the command `taskmaster-node` does.
 * - `openEmbedded({ dir })` → `TaskMasterClient`: uses the engine without a network.
 */

export type { EngineConfig } from '@taskmaster/engine';
export type { Log } from '@taskmaster/engine/ports';
export {
  StoreCorruptError,
  StoreFailedError,
  StoreFullError,
  StoreLockedError,
  StoreNewerError,
} from '@taskmaster/engine/ports';
export { InvalidConfigError } from '@taskmaster/server/program';
export { type Colocated, type ColocatedOptions, colocate } from './colocated.ts';
export type { NodeConfig, NodeConfigInput } from './config.ts';
export { type EmbeddedOptions, openEmbedded } from './embedded.ts';
export { type RunningNode, type StartNodeOptions, startNode } from './node.ts';
