import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { instants, latin1, pids, taskStates, texts } from '../testing/arbitraries.ts';
import type { ApplyAtom, TaskChange } from './atom.ts';
import { decodeAtom, writeAtom } from './atom-codec.ts';
import { ByteWriter, UnreadableBytesError } from './bytes.ts';
import type { PartitionId, QueueId, Ticket } from './ids.ts';
import { countedHistory } from './task.ts';

const PARTITION = 7 as PartitionId;
const TICKET = 12 as Ticket;

const queueIds = fc.nat(2 ** 48 - 1).map((id) => id as QueueId);
const payloads = fc.uint8Array({ maxLength: 40 });
const maybePayloads = fc.option(payloads, { nil: undefined });
const task = { queueId: queueIds, pid: pids };

const changes: fc.Arbitrary<TaskChange> = fc.oneof(
  fc.record({ kind: fc.constant('enqueue' as const), ...task, after: taskStates, data: maybePayloads }),
  fc.record({
    kind: fc.constant('change' as const),
    ...task,
    before: taskStates,
    after: taskStates,
    data: maybePayloads,
  }),
  fc.record({ kind: fc.constant('dequeue' as const), ...task, before: taskStates, completed: fc.boolean() }),
);

const atoms: fc.Arbitrary<ApplyAtom> = fc.record({
  partition: fc.constant(PARTITION),
  ticket: fc.constant(TICKET),
  at: instants,
  created: fc.array(fc.record({ queueId: queueIds, name: fc.record({ group: texts, name: texts }) })),
  changes: fc.array(changes),
  dropped: fc.array(fc.record({ queueId: queueIds, reap: fc.boolean() })),
  request: fc.option(fc.record({ id: latin1({ minLength: 1, maxLength: 64 }), outcome: latin1({ maxLength: 64 }) }), {
    nil: undefined,
  }),
});

function encode(atom: ApplyAtom, withData: boolean): Uint8Array {
  const writer = new ByteWriter();
  writeAtom(writer, atom, withData);
  return writer.view();
}

const mapData = (atom: ApplyAtom, map: (data: Uint8Array) => Uint8Array | undefined): ApplyAtom => ({
  ...atom,
  changes: atom.changes.map((change) =>
    change.kind === 'dequeue' ? change : { ...change, data: change.data && map(change.data) },
  ),
});

/** The atom without what entries leave out: of the histories of earlier states, all that rows and counters do not depend on. */
const asWritten = (atom: ApplyAtom): ApplyAtom => ({
  ...atom,
  changes: atom.changes.map((change) =>
    change.kind === 'enqueue'
      ? change
      : { ...change, before: { ...change.before, history: countedHistory(change.before.history) } },
  ),
});

/** The atom with its payloads as Buffers, because the codec returns views. */
const decode = (bytes: Uint8Array): ApplyAtom =>
  mapData(decodeAtom(PARTITION, TICKET, bytes), (data) => Uint8Array.from(data));

describe('a log entry', () => {
  test('with payloads decodes to the same atom', () => {
    fc.assert(
      fc.property(atoms, (atom) => {
        expect(decode(encode(atom, true))).toEqual(asWritten(atom));
      }),
    );
  });

  test('without payloads decodes to the atom without payloads', () => {
    fc.assert(
      fc.property(atoms, (atom) => {
        expect(decode(encode(atom, false))).toEqual(mapData(asWritten(atom), () => undefined));
      }),
    );
  });

  test('truncated anywhere is refused', () => {
    fc.assert(
      fc.property(atoms, fc.nat(), (atom, at) => {
        const bytes = encode(atom, true);
        expect(() => decode(bytes.subarray(0, at % bytes.length))).toThrow(UnreadableBytesError);
      }),
    );
  });

  test('of a newer version is refused with both versions', () => {
    expect(() => decode(Uint8Array.of(5))).toThrow(
      'log entry 12 of partition 7 has version 5; this release reads 2,3,4',
    );
  });

  test('with a change of an unknown kind is refused', () => {
    const change = { kind: 'dequeue', queueId: 1, pid: 'a', before: fc.sample(taskStates, 1)[0], completed: true };
    const atom = { at: 0, created: [], changes: [change], dropped: [], request: undefined } as unknown as ApplyAtom;
    const bytes = encode(atom, true);
    // Version, instant, no created queue, one change: then its kind.
    expect([...bytes.subarray(0, 5)]).toEqual([3, 0, 0, 1, 4]);
    bytes[4] = 9;
    expect(() => decode(bytes)).toThrow('unknown change 9');
  });
});
