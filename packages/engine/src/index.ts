// The engine over a store: what the node's program, its cluster and its pages use of it.

export { assertDurability, DEFAULT_ENGINE_CONFIG, type EngineConfig } from './config.ts';
export type { Engine } from './engine.ts';
export { ticketBehindEarlierLives } from './log/partition-row.ts';
export { scanAll } from './log/scan-all.ts';
export { MemoryStore } from './memory/memory-store.ts';
export { openEngine } from './open-engine.ts';
export { inspectStore } from './open-state.ts';
export type { Backups } from './partitions/backup/backups.ts';
export { type RestoredBackup, type RestoreProgress, restoreBackup } from './partitions/backup/restore-backup.ts';
export type { HeldPartition, PartitionClaim, PartitionLocation } from './partitions/partition-host.ts';
export type { Partitions } from './partitions/partitions.ts';
export type { PartitionExport } from './partitions/transfer/export-partition.ts';
export type { PartitionImport } from './partitions/transfer/import-partition.ts';
export { Throttle } from './partitions/transfer/throttle.ts';
export type { LimitedGroup } from './queues/group-usage.ts';
