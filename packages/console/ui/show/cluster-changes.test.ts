import { Member, MemberRole, MemberState, Partition, PartitionState } from '@taskmaster/proto/messages';
import { expect, test } from 'vitest';
import { type ClusterState, changesBetween } from './cluster-changes.ts';

const NOTHING = new Uint8Array(0);
const member = (name: string, fields: Partial<Member> = {}): Member => ({
  ...Member.decode(NOTHING),
  name,
  nodeId: `id-${name}`,
  role: MemberRole.MEMBER_ROLE_NODE,
  state: MemberState.MEMBER_STATE_ACTIVE,
  alive: true,
  version: '1.0.0',
  ...fields,
});
const partition = (
  id: number,
  holder: string,
  state: PartitionState = PartitionState.PARTITION_STATE_SERVING,
): Partition => ({
  ...Partition.decode(NOTHING),
  id,
  holder,
  state,
});
const cluster = (members: Member[], partitions: Partition[] = []): ClusterState => ({
  members,
  partitions,
  unreachable: [],
});
const texts = (before: ClusterState, now: ClusterState): string[] =>
  changesBetween(before, now, 1).map(({ text }) => text);

test('nothing changes', () => {
  const same = cluster([member('a')], [partition(0, 'a')]);
  expect(texts(same, same)).toEqual([]);
});

test('members come, go down, drain, are upgraded and leave', () => {
  const before = cluster([member('a'), member('b'), member('c'), member('p', { role: MemberRole.MEMBER_ROLE_PROXY })]);
  const now = cluster([
    member('a', { alive: false }),
    member('b', { state: MemberState.MEMBER_STATE_LEAVING, version: '1.1.0' }),
    member('c', { suspect: true }),
    member('d'),
  ]);
  expect(texts(before, now)).toEqual([
    'Member a is down',
    'Member b is draining',
    'Member b runs 1.1.0; it ran 1.0.0',
    'Member c does not answer',
    'Member d joined',
    'Proxy p is gone',
  ]);
});

test('partitions that go the same way are one change', () => {
  const before = cluster([], [partition(0, 'a'), partition(1, 'a'), partition(2, 'b'), partition(3, 'b')]);
  const lost = PartitionState.PARTITION_STATE_UNREACHABLE;
  const now = cluster([], [partition(0, 'c'), partition(1, 'c'), partition(2, 'b', lost), partition(3, 'b')]);
  expect(texts(before, now)).toEqual(['2 partitions moved from a to c', 'Partition 2 not served: b does not answer']);
  expect(texts(now, before).at(-1)).toBe('Partition 2 served again');
});
