import type { Instant } from '@taskmaster/engine/domain';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  deciderWithout,
  epochBeyond,
  epochOfUnknown,
  type MemberRecord,
  membersNamed,
  mergeMembers,
  mergeRecords,
  ringMembers,
} from './members.ts';

const record = (changes: Partial<MemberRecord> = {}): MemberRecord => ({
  nodeId: 'id-a',
  name: 'a',
  state: 'active',
  version: 3,
  rpcAddress: '10.0.0.1:7400',
  gossipAddress: '10.0.0.1:7401',
  removedBy: '',
  ...changes,
});

const records = fc.record({
  nodeId: fc.constantFrom('id-a', 'id-b', 'id-c'),
  name: fc.constantFrom('a', 'b'),
  state: fc.constantFrom('joining' as const, 'active' as const, 'leaving' as const, 'left' as const),
  version: fc.nat({ max: 3 }),
  rpcAddress: fc.constantFrom('x:1', 'y:2'),
  gossipAddress: fc.constant('x:3'),
  removedBy: fc.constantFrom('', 'id-b'),
});
const merged = (...lists: readonly (readonly MemberRecord[])[]) =>
  lists.reduce(
    (all, list) => mergeMembers(all, list),
    new Map<string, MemberRecord>() as ReturnType<typeof mergeMembers>,
  );

describe('of two records of a member', () => {
  test.each([
    ['the later version', record({ version: 4, state: 'leaving' }), record({ version: 3 })],
    ['the later version, though its state is an earlier one', record({ version: 5, state: 'joining' }), record()],
    ['the one that left, whatever the versions', record({ version: 1, state: 'left' }), record({ version: 9 })],
    ['the state that is further on, of one version', record({ state: 'leaving' }), record({ state: 'active' })],
    ['the later of two ends', record({ state: 'left', version: 7 }), record({ state: 'left', version: 6 })],
  ])('counts %s', (_, counts, other) => {
    expect(mergeRecords(counts, other)).toBe(counts);
    expect(mergeRecords(other, counts)).toBe(counts);
  });
});

describe('the merged records of members', () => {
  test('do not depend on the order and number of reports', () => {
    fc.assert(
      fc.property(fc.array(records), fc.array(records), fc.array(records), (a, b, c) => {
        const all = merged(a, b, c);
        expect(merged(c, b, a)).toEqual(all);
        expect(merged(a, [...merged(b, c).values()])).toEqual(all);
        expect(mergeMembers(all, [...a, ...b])).toBe(all);
      }),
    );
  });

  test('put active members on the ring', () => {
    const members = merged([
      record(),
      record({ nodeId: 'id-b', name: 'b', state: 'joining' }),
      record({ nodeId: 'id-c', name: 'c', state: 'left' }),
    ]);
    expect(ringMembers(members)).toEqual(['id-a']);
  });

  test('let the lowest active member decide that is not being removed', () => {
    const members = merged([
      record({ nodeId: 'id-c', name: 'c' }),
      record(),
      record({ nodeId: 'id-b', name: 'b' }),
      record({ nodeId: 'id-0', name: '0', state: 'leaving' }),
    ]);
    expect(deciderWithout(members, [])).toBe('id-a');
    expect(deciderWithout(members, ['id-a', 'id-c'])).toBe('id-b');
    expect(deciderWithout(members, ['id-a', 'id-b', 'id-c'])).toBeUndefined();
  });

  test.each<[string, Partial<MemberRecord>[], number]>([
    ['one was removed', [{ state: 'left', removedBy: 'id-b' }], 2],
    [
      'two were removed',
      [
        { state: 'left', removedBy: 'id-b' },
        { nodeId: 'id-c', state: 'left', removedBy: 'id-b' },
      ],
      2e6,
    ],
    [
      'one was removed and one left',
      [
        { state: 'left', removedBy: 'id-b' },
        { nodeId: 'id-c', state: 'left' },
      ],
      2e6,
    ],
  ])('leave out the epochs that removed members may have used unnoticed: %s', (_, gone, passed) => {
    expect(epochBeyond(3, merged(gone.map(record)))).toBe(3 + passed);
  });

  test('claim at another epoch if one more member is removed, because a claim of that member may be unknown', () => {
    const gone = ['b', 'c', 'd', 'e'].map((name) => record({ nodeId: `id-${name}`, name, state: 'left' }));
    const epochs = [1, 2, 3, 4].map((count) => epochBeyond(3, merged(gone.slice(0, count))));
    expect(new Set(epochs).size).toBe(4);
    expect(epochs).toEqual(epochs.toSorted((a, b) => a - b));
  });

  test('claim unknown partitions at later epochs than those that grew since an earlier claim of this kind', () => {
    const gone = merged(['b', 'c', 'd'].map((name) => record({ nodeId: `id-${name}`, name, state: 'left' })));
    const began = 1_800_000_000_000 as Instant;
    const known = epochBeyond(epochOfUnknown(began) + 100, gone);
    expect(epochOfUnknown((began + 60_000) as Instant)).toBeGreaterThan(known);
    expect(Number.isSafeInteger(epochBeyond(epochOfUnknown(began), gone))).toBe(true);
  });

  test('let another node have the name of a member that left', () => {
    expect(membersNamed(merged([record({ state: 'left' })]), 'a')).toEqual([]);
    expect(membersNamed(merged([record()]), 'a').map(({ nodeId }) => nodeId)).toEqual(['id-a']);
  });
});
