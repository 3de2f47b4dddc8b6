import type { Log } from '@taskmaster/engine/ports';
import type { MemoryDivision } from './divide-memory.ts';
import { MIB } from './sizes.ts';

/** Logs how the memory is divided, and warns if there is less than the settings promise. */
export function logMemory({ memory, source, available, parts }: MemoryDivision<string>, log: Log): void {
  log.info({ bytes: memory, source, available: available.bytes, parts }, 'memory is divided');
  if (memory > available.bytes) {
    log.warn(
      { bytes: memory, available },
      'memory is more than the machine or the cgroup has: the process may be killed',
    );
  }
}

/** The division in lines of text, the largest part first. */
export function memoryLines({ memory, source, available, parts }: MemoryDivision<string>): readonly string[] {
  const mib = (bytes: number): string => `${Math.round(bytes / MIB)}MiB`;
  const sources = {
    setting: 'as set',
    cgroup: `of ${mib(available.bytes)} that the cgroup allows`,
    machine: `of ${mib(available.bytes)} of the machine`,
  };
  const sorted = Object.entries(parts).sort(([, one], [, other]) => other - one);
  return [`Memory: ${mib(memory)}, ${sources[source]}:`, ...sorted.map(([part, bytes]) => `  ${part}: ${mib(bytes)}`)];
}
