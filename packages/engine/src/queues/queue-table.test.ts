import type { QueueName } from '@taskmaster/proto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { PartitionId, QueueId } from '../domain/ids.ts';
import { QueueLedger } from '../log/queue-ledger.ts';
import { texts } from '../testing/arbitraries.ts';
import { Queue } from './queue.ts';
import { QueueTable } from './queue-table.ts';

const PARTITION = 1 as PartitionId;

const newQueue = (name: QueueName, id: number): Queue => new Queue(PARTITION, new QueueLedger(id as QueueId, name));

function tableOf(names: readonly QueueName[]): QueueTable {
  const table = new QueueTable();
  for (const [i, name] of names.entries()) table.add(newQueue(name, i + 1));
  return table;
}

const namesOf = (queues: Iterable<Queue>): QueueName[] => Array.from(queues, ({ ledger }) => ledger.name);

const compareUtf8 = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
const compareNames = (a: QueueName, b: QueueName): number =>
  compareUtf8(a.group, b.group) || compareUtf8(a.name, b.name);

/** Names that may be prefixes of each other or contain a NUL. */
const part = fc.oneof(fc.constantFrom('', '\0', 'a', 'a\0', 'a\0\0', 'a\0b', 'a\u0001', 'ab', 'é', '日本'), texts);
const queueNames = fc.uniqueArray(fc.record({ group: part, name: part }), {
  maxLength: 30,
  comparator: (a, b) => a.group === b.group && a.name === b.name,
});

/** Characters whose order in UTF-8 differs from their order in UTF-16. */
const beyond16Bits = ['\u{1f600}', '\uffff'];
const hardNames = [
  beyond16Bits.map((name) => ({ group: '', name })),
  beyond16Bits.map((group) => ({ group, name: '' })),
  ['\0', '', '\u0001'].map((end) => ({ group: `a${end}`, name: 'q' })),
];

describe('the queue table', () => {
  test('orders queues by group, then by name, by the bytes of their UTF-8', () => {
    fc.assert(
      fc.property(queueNames, (names) => {
        expect(namesOf(tableOf(names).inOrder())).toEqual(names.toSorted(compareNames));
      }),
      { examples: hardNames.map((names) => [names]) },
    );
  });

  test('continues behind any name, even of a removed queue', () => {
    fc.assert(
      fc.property(queueNames, fc.record({ group: part, name: part }), (names, after) => {
        const behind = names.filter((name) => compareNames(name, after) > 0);
        expect(namesOf(tableOf(names).inOrder({}, after))).toEqual(behind.toSorted(compareNames));
      }),
    );
  });

  test('keeps the order while queues come and go', () => {
    const steps = fc.array(fc.record({ name: fc.nat(8), listed: fc.boolean() }), { maxLength: 60 });
    fc.assert(
      fc.property(steps, (taken) => {
        const table = new QueueTable();
        const there = new Map<number, Queue>();
        for (const [id, { name, listed }] of taken.entries()) {
          const known = there.get(name);
          if (known) {
            table.remove(known);
            there.delete(name);
          } else {
            const queue = newQueue({ group: 'g', name: `q${name}` }, id + 1);
            table.add(queue);
            there.set(name, queue);
          }
          if (!listed) continue;
          const expected = [...there].toSorted(([a], [b]) => a - b).map(([, queue]) => queue);
          expect([...table.inOrder()]).toEqual(expected);
        }
      }),
    );
  });

  test('keeps the order of many queues that are added in any order, with removals in between', () => {
    const many = 10_000;
    const names = Array.from({ length: many }, (_, i) => ({ group: '', name: `q${(i * 7_919) % many}` }));
    const table = tableOf(names.slice(0, 9_500));
    const isGone = (_: QueueName, i: number) => i % 3 === 0;
    for (const name of names.slice(0, 9_500).filter(isGone)) {
      const queue = table.get(name);
      if (queue) table.remove(queue);
    }
    const again = names.slice(0, 9_500).filter(isGone).slice(0, 2_000);
    const added = [...names.slice(9_500), ...again].map((name, i) => newQueue(name, many + i + 1));
    for (const queue of added) table.add(queue);
    const there = [...names.filter((name, i) => i >= 9_500 || !isGone(name, i)), ...again];
    const listed = [...table.inOrder()];
    expect(namesOf(listed)).toEqual(there.toSorted(compareNames));
    const found = new Set(listed);
    expect(added.every((queue) => found.has(queue))).toBe(true);
    expect(table.size).toBe(there.length);
  });

  test('lists one group only, also behind a name', () => {
    const groupOf = fc.oneof(part, fc.constantFrom('a', 'a\0'));
    fc.assert(
      fc.property(queueNames, groupOf, fc.record({ group: part, name: part }), (names, group, after) => {
        const asked: string[] = [];
        const matches = (fullName: string) => asked.push(fullName) > 0;
        const ofGroup = names.filter((name) => name.group === group).toSorted(compareNames);
        const table = tableOf(names);
        expect(namesOf(table.inOrder({ group, matches }))).toEqual(ofGroup);
        expect(asked.length, 'names looked at').toBe(ofGroup.length);
        const behind = ofGroup.filter((name) => compareNames(name, after) > 0);
        expect(namesOf(table.inOrder({ group }, after))).toEqual(behind);
      }),
      {
        examples: [
          [['a', 'a\0', 'a\0b', 'a\u0001'].map((group) => ({ group, name: '' })), 'a', { group: '', name: 'z' }],
        ],
      },
    );
  });

  test('lists only queues that match', () => {
    const table = tableOf(['b1', 'a', 'b0'].map((name) => ({ group: '', name })));
    const listed = namesOf(table.inOrder({ matches: (fullName) => fullName.startsWith('b') }));
    expect(listed.map(({ name }) => name)).toEqual(['b0', 'b1']);
  });

  test('finds queues by name until they are removed', () => {
    fc.assert(
      fc.property(queueNames, fc.nat(), (names, seed) => {
        const table = tableOf(names);
        const isGone = (i: number) => (seed >> (i % 31)) % 2 === 1;
        for (const [i, name] of names.entries()) {
          const queue = table.get(name);
          if (queue && isGone(i)) table.remove(queue);
        }
        for (const [i, name] of names.entries()) {
          const there = isGone(i) ? undefined : name;
          expect(table.get(name)?.ledger.name).toEqual(there);
        }
        expect(table.size).toBe(namesOf(table.inOrder()).length);
      }),
    );
  });
});
