import type { KeptLease } from './renewer.ts';

/**
 * A lease on its way to the thread that renews it. What is sent between threads is cloned: the names of an object's fields
 * once more for each object, and with a view of bytes all the memory behind it.
 */
export type SentLease = readonly [
  id: number,
  queue: string,
  pid: string,
  token: number,
  leaseMs: number,
  endsAt: number,
  keepUntil: number,
];

export function sendLease({ id, queue, pid, token, leaseMs, endsAt, keepUntil }: KeptLease): SentLease {
  const { buffer, byteOffset, byteLength } = pid;
  return [id, queue, Buffer.from(buffer, byteOffset, byteLength).toString('latin1'), token, leaseMs, endsAt, keepUntil];
}

export function receiveLease([id, queue, pid, token, leaseMs, endsAt, keepUntil]: SentLease): KeptLease {
  return { id, queue, pid: Buffer.from(pid, 'latin1'), token, leaseMs, endsAt, keepUntil };
}
