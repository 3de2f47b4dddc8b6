export { type AvailableMemory, availableMemory } from './available-memory.ts';
export {
  type ChosenMemory,
  divideMemory,
  type MemoryDivision,
  type MemorySpec,
  PROGRAM_SHARES,
} from './divide-memory.ts';
export { earlySettings } from './early-settings.ts';
export { GIB, MIB, readSize } from './sizes.ts';
export { boundMemory, compileEarly, type MemoryBounds } from './v8-flags.ts';
