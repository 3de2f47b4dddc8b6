export { BrokenStreamError, FakePartitions } from './fake-partitions.ts';
export { MemoryStore } from './memory-store.ts';
export { type PartitionSourceWorld, partitionSourceContract } from './partition-source-contract.ts';
