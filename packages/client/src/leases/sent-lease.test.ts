import { expect, test } from 'vitest';
import { receiveLease, sendLease } from './sent-lease.ts';

test('a lease is the same in another thread, whatever the bytes of its PID, and only its own bytes are transferred', () => {
  const message = Buffer.alloc(1_000_000);
  const pid = message.subarray(10, 14);
  pid.set([0x00, 0x7f, 0x80, 0xff]);
  const lease = {
    id: 1,
    queue: 'billing#refunds',
    pid,
    token: 2 ** 48,
    leaseDurationMs: 30_000,
    endsAt: 12.5,
    keepUntil: 99.25,
    limitAt: Number.POSITIVE_INFINITY,
  };
  const sent = structuredClone(sendLease(lease));
  expect(receiveLease(sent)).toEqual({ ...lease, pid: Buffer.from(pid) });
  expect(JSON.stringify(sent).length).toBeLessThan(100);
});
