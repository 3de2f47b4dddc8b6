// For tests of programs that use TaskMaster: a queue in memory, its clock, and what shortens tests of handlers.

export { type AboutTask, assertEnqueued, enqueued, enqueuedMatchers } from './enqueued.ts';
export { cancelTask, type FakeTask, type FakeTaskOptions, fakeTask } from './fake-task.ts';
export { type MemoryOptions, openMemory, TestClock } from './open-memory.ts';
export { type RunUntilEmptyOptions, type RunUntilEmptyOutcome, runUntilEmpty } from './run-until-empty.ts';
