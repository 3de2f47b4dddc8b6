import type { Connections } from './connections.ts';
import type { Job, JobResults } from './jobs.ts';

/** Backs a partition up again and again until the time is over. */
export async function readBackups(
  connections: Connections,
  { endpoint, partition, ms }: Extract<Job, { readonly kind: 'backup' }>,
): Promise<JobResults['backup']> {
  const client = await connections.client(endpoint, 'backup');
  const cpu = process.cpuUsage();
  const began = performance.now();
  const isOver = (): boolean => performance.now() - began >= ms;
  let bytes = 0;
  while (!isOver()) {
    for await (const part of client.cluster.backupPartition(partition)) {
      if (part.$case === 'rows') for (const { key, value } of part.value.rows) bytes += key.length + value.length;
      if (part.$case === 'atoms') for (const { entry } of part.value.atoms) bytes += entry.length;
      if (isOver()) break;
    }
  }
  const { user, system } = process.cpuUsage(cpu);
  return { bytes, elapsedMs: performance.now() - began, cpuMs: (user + system) / 1000 };
}
