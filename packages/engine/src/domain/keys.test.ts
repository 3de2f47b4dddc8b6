import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { latin1, pids } from '../testing/arbitraries.ts';
import type { Instant, PartitionId, Pid, QueueId, Ticket } from './ids.ts';
import {
  afterPrefix,
  dueKey,
  instantOfDueKey,
  logKey,
  metaKeys,
  partitionOfLogKey,
  partitionOfMetaKey,
  pidAfter,
  pidOfDueKey,
  pidOfTaskKey,
  prefixOfReapKey,
  queuePrefix,
  requestKey,
  taskKey,
  ticketOfLogKey,
} from './keys.ts';

const partitions = fc.nat(0xffff).map((n) => n as PartitionId);
/** Numbers of six bytes. */
const sixBytes = fc.oneof(
  fc.constantFrom(0, 0xff, 0x100, 2 ** 24 - 1, 2 ** 24, 2 ** 32, 2 ** 48 - 1),
  fc.nat(2 ** 48 - 1),
);
const queues = sixBytes.map((n) => n as QueueId);
const untils = sixBytes.map((n) => n as Instant);

/** The parts of a key, most significant first. */
type Parts = readonly (number | string)[];

function compareParts(a: Parts, b: Parts): number {
  for (const [i, left] of a.entries()) {
    const right = b[i];
    const order =
      typeof left === 'number'
        ? left - Number(right)
        : Buffer.compare(Buffer.from(left, 'latin1'), Buffer.from(String(right), 'latin1'));
    if (order !== 0) return Math.sign(order);
  }
  return 0;
}

const compareKeys = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Makes pairs that differ only in the last part as likely as others. */
function inOrder<T extends Parts>(parts: fc.Arbitrary<T>, keyOf: (parts: T) => string): void {
  const pairs = fc.tuple(parts, parts, fc.nat(3)).map(([a, b, shared]) => {
    return [a, [...a.slice(0, shared), ...b.slice(shared)] as unknown as T] as const;
  });
  fc.assert(
    fc.property(pairs, ([a, b]) => {
      expect(compareKeys(keyOf(a), keyOf(b))).toBe(compareParts(a, b));
    }),
  );
}

describe('the order of keys', () => {
  test('of tasks is partition, queue, PID', () => {
    inOrder(fc.tuple(partitions, queues, pids), ([p, q, pid]) => taskKey(queuePrefix(p, q), pid));
  });

  test('of the due index is partition, queue, instant, PID', () => {
    inOrder(fc.tuple(partitions, queues, untils, pids), ([p, q, at, pid]) => dueKey(queuePrefix(p, q), at, pid));
  });

  test('of the log is partition, ticket', () => {
    inOrder(fc.tuple(partitions, sixBytes), ([p, ticket]) => logKey(p, ticket as Ticket));
  });

  test('of request ids is partition, window, id', () => {
    const windows = fc.oneof(fc.constantFrom(0, 2 ** 31, 2 ** 32 - 1), fc.nat(2 ** 32 - 1));
    inOrder(fc.tuple(partitions, windows, latin1({ maxLength: 8 })), ([p, window, id]) => requestKey(p, window, id));
  });
});

test('a key decodes to its parts', () => {
  fc.assert(
    fc.property(partitions, queues, untils, pids, (partition, queue, until, pid) => {
      const prefix = queuePrefix(partition, queue);
      const due = dueKey(prefix, until, pid);
      const log = logKey(partition, queue as number as Ticket);
      expect(pidOfTaskKey(taskKey(prefix, pid))).toBe(pid);
      expect([instantOfDueKey(due), pidOfDueKey(due)]).toEqual([until, pid]);
      expect([partitionOfLogKey(log), ticketOfLogKey(log)]).toEqual([partition, queue]);
      expect(partitionOfMetaKey(metaKeys.partition(partition))).toBe(partition);
      expect(prefixOfReapKey(metaKeys.reap(partition, queue))).toBe(prefix);
    }),
  );
});

test('an instant beyond the largest one of a key sorts as the largest one', () => {
  const prefix = queuePrefix(1 as PartitionId, 1 as QueueId);
  for (const far of [2 ** 48, Number.MAX_SAFE_INTEGER] as Instant[]) {
    expect(dueKey(prefix, far, 'a' as Pid)).toBe(dueKey(prefix, (2 ** 48 - 1) as Instant, 'a' as Pid));
  }
});

test('afterPrefix is the first key behind all keys with the prefix', () => {
  const prefixes = latin1({ minLength: 1, maxLength: 4 }).filter((prefix) => /[^\xff]/.test(prefix));
  fc.assert(
    fc.property(prefixes, latin1({ maxLength: 5 }), (prefix, text) => {
      expect(prefix + text < afterPrefix(prefix)).toBe(true);
      if (text > prefix && !text.startsWith(prefix)) expect(text >= afterPrefix(prefix)).toBe(true);
    }),
  );
  expect(() => afterPrefix('\xff\xff')).toThrow(RangeError);
});

test('no PID is between one and its pidAfter', () => {
  fc.assert(
    fc.property(pids, pids, (pid, other) => {
      expect(pid < pidAfter(pid)).toBe(true);
      if (other > pid) expect(other >= pidAfter(pid)).toBe(true);
    }),
  );
});
