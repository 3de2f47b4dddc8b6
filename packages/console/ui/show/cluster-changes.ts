import { type Member, MemberRole, MemberState, type Partition, PartitionState } from '@taskmaster/proto/messages';

/** Something that has changed in a cluster. */
export interface Change {
  /** When it was seen, in ms since 1970 by the server's clock. */
  readonly at: number;
  readonly tone: 'good' | 'warn' | 'bad' | 'info';
  readonly text: string;
}

/** What a page knows of a cluster at a moment. */
export interface ClusterState {
  readonly members: readonly Member[];
  readonly partitions: readonly Partition[];
  readonly unreachable: readonly string[];
}

export const stateNames: Readonly<Record<number, string>> = {
  [MemberState.MEMBER_STATE_JOINING]: 'joining',
  [MemberState.MEMBER_STATE_ACTIVE]: 'active',
  [MemberState.MEMBER_STATE_LEAVING]: 'draining',
  [MemberState.MEMBER_STATE_LEFT]: 'left',
};

const kindOf = ({ role }: Member): string => (role === MemberRole.MEMBER_ROLE_PROXY ? 'Proxy' : 'Member');
const keyOf = ({ nodeId, name, rpcAddress }: Member): string => nodeId || `${name} ${rpcAddress}`;

/** What has changed between two looks at a cluster. Partitions that went the same way are one change. */
export function changesBetween(before: ClusterState, now: ClusterState, at: number): Change[] {
  const changes: Change[] = [];
  const add = (tone: Change['tone'], text: string): void => void changes.push({ at, tone, text });
  const known = new Map(before.members.map((member) => [keyOf(member), member]));
  for (const member of now.members) {
    const was = known.get(keyOf(member));
    known.delete(keyOf(member));
    const who = `${kindOf(member)} ${member.name}`;
    if (was === undefined) {
      add('info', `${who} joined`);
      continue;
    }
    if (was.state !== member.state && member.role !== MemberRole.MEMBER_ROLE_PROXY) {
      add(member.state === MemberState.MEMBER_STATE_ACTIVE ? 'good' : 'info', `${who} is ${stateNames[member.state]}`);
    }
    if (was.alive !== member.alive) add(member.alive ? 'good' : 'bad', `${who} is ${member.alive ? 'alive' : 'down'}`);
    else if (member.alive && was.suspect !== member.suspect) {
      add(member.suspect ? 'warn' : 'good', `${who} ${member.suspect ? 'does not answer' : 'answers again'}`);
    }
    if (was.version !== member.version && was.version !== '' && member.version !== '') {
      add('info', `${who} runs ${member.version}; it ran ${was.version}`);
    }
  }
  for (const gone of known.values()) add('info', `${kindOf(gone)} ${gone.name} is gone`);
  changes.push(...moves(before.partitions, now.partitions, at));
  return changes;
}

function moves(before: readonly Partition[], now: readonly Partition[], at: number): Change[] {
  const was = new Map(before.map((partition) => [partition.id, partition]));
  const counts = new Map<string, { tone: Change['tone']; ids: number[]; text: (what: string) => string }>();
  const count = (key: string, tone: Change['tone'], id: number, text: (what: string) => string): void => {
    const same = counts.get(key) ?? { tone, ids: [], text };
    same.ids.push(id);
    counts.set(key, same);
  };
  for (const { id, holder, state } of now) {
    const old = was.get(id);
    if (old === undefined) continue;
    if (old.holder !== holder && holder !== '' && old.holder !== '') {
      count(`moved ${old.holder} ${holder}`, 'info', id, (what) => `${what} moved from ${old.holder} to ${holder}`);
    }
    const isServed = state !== PartitionState.PARTITION_STATE_UNREACHABLE;
    if (isServed === (old.state !== PartitionState.PARTITION_STATE_UNREACHABLE)) continue;
    if (isServed) count('served', 'good', id, (what) => `${what} served again`);
    else count(`lost ${holder}`, 'bad', id, (what) => `${what} not served: ${holder || 'the holder'} does not answer`);
  }
  return [...counts.values()].map(({ tone, ids, text }) => ({
    at,
    tone,
    text: text(ids.length === 1 ? `Partition ${ids[0]}` : `${ids.length} partitions`),
  }));
}
