/**
 * A TaskMaster node.
 *
 * - `startNode(settings)` → `RunningNode`: serves gRPC and HTTP from this process; the command `taskmaster-node` does it.
 * - `openEmbedded({ dir })` → `TaskMasterClient`: the same engine without a network.
 */

export type { Log } from '@taskmaster/server/ports';
export { InvalidConfigError } from '@taskmaster/server/program';
export { type Colocated, type ColocatedOptions, colocate } from './colocated.ts';
export type { NodeConfig, NodeConfigInput } from './config.ts';
export { type EmbeddedOptions, openEmbedded } from './embedded.ts';
export type { EngineConfig } from './engine/config.ts';
export { type RunningNode, type StartNodeOptions, startNode } from './node.ts';
export { StoreCorruptError, StoreFailedError, StoreFullError, StoreLockedError } from './ports/store.ts';
