import type { PartitionId } from '@taskmaster/engine/domain';
import { type ClusterKnowledge, type MemberRecord as WireRecord, MemberState as WireState } from '@taskmaster/proto';
import type { HolderView } from './holder-view.ts';
import type { MemberRecord, MemberState, Members } from './members.ts';

const WIRE: Readonly<Record<MemberState, WireState>> = {
  joining: WireState.MEMBER_STATE_JOINING,
  active: WireState.MEMBER_STATE_ACTIVE,
  leaving: WireState.MEMBER_STATE_LEAVING,
  left: WireState.MEMBER_STATE_LEFT,
};

const NOT_COUNTED = { queues: 0, tasks: 0, countedMs: 0 };

export const toWireRecord = (record: MemberRecord): WireRecord => ({ ...record, state: WIRE[record.state] });

/** Undefined if this release does not know the state of the member: a missing member is better than a wrong one. */
export function fromWireRecord(record: WireRecord): MemberRecord | undefined {
  const { nodeId, name, version, rpcAddress, gossipAddress, removedBy } = record;
  for (const state of ['joining', 'active', 'leaving', 'left'] as const) {
    if (WIRE[state] === record.state) return { nodeId, name, state, version, rpcAddress, gossipAddress, removedBy };
  }
  return undefined;
}

export function toWireKnowledge(members: Members, view: HolderView): ClusterKnowledge {
  const holders = [...view.entries()].map(([partition, { nodeId, epoch }]) => {
    const { queues, tasks, countedMs } = view.counts(partition) ?? NOT_COUNTED;
    return { partition, nodeId, epoch, queues, tasks, countedMs, durableMark: view.durableMark(partition) };
  });
  return { members: [...members.values()].map(toWireRecord), holders };
}

/** Takes over the knowledge of another node. Returns its member records, and true if a holder is new. */
export function learnFrom(
  knowledge: ClusterKnowledge | undefined,
  view: HolderView,
): { records: MemberRecord[]; news: boolean } {
  const records = (knowledge?.members ?? []).map(fromWireRecord).filter((record) => record !== undefined);
  let news = false;
  for (const { partition, nodeId, epoch, queues, tasks, countedMs, durableMark } of knowledge?.holders ?? []) {
    const id = partition as PartitionId;
    if (view.learn(id, { nodeId, epoch })) news = true;
    view.learnDurableMark(id, { nodeId, epoch }, durableMark);
    if (countedMs > 0) view.learnCounts(id, epoch, { queues, tasks, countedMs });
  }
  return { records, news };
}
