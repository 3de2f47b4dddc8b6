/**
 * A TaskMaster node.
 *
 * - `startNode(settings)` → `RunningNode`: serves gRPC and HTTP from this process; the command `taskmaster-node` does it.
 * - `openEmbedded({ dir })` → `TaskMasterClient`: the same engine without a network.
 */
export type { NodeConfig, NodeConfigInput } from './config.ts';
export { InvalidConfig } from './config-sections.ts';
export { type EmbeddedOptions, openEmbedded } from './embedded.ts';
export type { EngineConfig } from './engine/config.ts';
export { type Front, type NodeInside, type RunningNode, type StartNodeOptions, startNode } from './node.ts';
export type { Log } from './ports/log.ts';
export { StoreCorrupt, StoreFailed, StoreFull, StoreLocked } from './ports/store.ts';
