export { BrokenStreamError, FakePartitions } from './fake-partitions.ts';
export { MemoryStore } from './memory-store.ts';
