import { type Member, MemberRole, MemberState, type Partition, PartitionState } from '@taskmaster/proto/messages';
import type { VNode } from 'preact';
import type { Overview } from '../data/overview.ts';
import { usePoll } from '../data/poll.ts';
import { CallError, call, readJson } from '../data/rpc.ts';
import { serverNow } from '../data/session.ts';
import { Action } from '../parts/action.tsx';
import { Badge, Pending, Section, Tiles } from '../parts/bits.tsx';
import { Table } from '../parts/table.tsx';
import { Text, visible, When } from '../parts/text.tsx';
import { type Change, type ClusterState, changesBetween, stateNames } from '../show/cluster-changes.ts';
import { type LoggedChange, mergedChanges } from '../show/cluster-log.ts';
import { formatBytes, formatCount, formatMany } from '../show/format.ts';

/** Changes that are kept, the latest ones. */
const MOST_CHANGES = 200;
const DAY_MS = 86_400_000;

let before: ClusterState | undefined;
let changes: readonly Change[] = [];
let watchedSince = 0;

interface ClusterData extends ClusterState {
  readonly clusterId: string;
  readonly total: number;
  /** True: the node runs without a cluster. */
  readonly isAlone: boolean;
  /** What the nodes have recorded. Undefined: the user may not see it. */
  readonly log: readonly LoggedChange[] | undefined;
}

async function load(signal: AbortSignal): Promise<ClusterData> {
  try {
    const [{ clusterId, members, partitions: total }, { partitions, unreachable }, { changes: log }] =
      await Promise.all([
        call('ListMembers', {}, signal),
        call('ListPartitions', {}, signal),
        // Without samples.
        readJson<Overview>(`overview?changes=1&after=${Date.now() + DAY_MS}`, signal),
      ]);
    const now: ClusterState = { members, partitions, unreachable };
    if (before === undefined) watchedSince = serverNow();
    else changes = [...changesBetween(before, now, serverNow()).toReversed(), ...changes].slice(0, MOST_CHANGES);
    before = now;
    return { ...now, clusterId, total, isAlone: false, log };
  } catch (thrown) {
    if (!(thrown instanceof CallError) || thrown.reason !== 'NO_CLUSTER') throw thrown;
    return { members: [], partitions: [], unreachable: [], clusterId: '', total: 0, isAlone: true, log: undefined };
  }
}

export function ClusterPage(): VNode {
  const { data, error } = usePoll('cluster', load);
  return (
    <>
      <div class="head">
        <h1>Cluster</h1>
        {data === undefined || data.clusterId === '' ? undefined : (
          <code class="quiet">
            <Text of={data.clusterId} most={80} />
          </code>
        )}
      </div>
      {data === undefined ? (
        <Pending error={error} />
      ) : data.isAlone ? (
        <div class="empty">
          <h2>This node runs without a cluster</h2>
          <p>It holds all partitions itself. A node joins or begins a cluster with --bootstrap or --join.</p>
        </div>
      ) : (
        <Content of={data} />
      )}
    </>
  );
}

const { PARTITION_STATE_UNREACHABLE, PARTITION_STATE_MOVING, PARTITION_STATE_FROZEN } = PartitionState;
const isNode = ({ role }: Member): boolean => role === MemberRole.MEMBER_ROLE_NODE;

function Content({ of }: { readonly of: ClusterData }): VNode {
  const { members, partitions, total, unreachable } = of;
  const nodes = members.filter(isNode).filter(({ state }) => state !== MemberState.MEMBER_STATE_LEFT);
  const unserved = partitions.filter(({ state }) => state === PARTITION_STATE_UNREACHABLE).length;
  const moving = partitions.filter(({ movingTo }) => movingTo !== '');
  const down = nodes.filter(({ alive }) => !alive).length;
  const versions = [...new Set(members.map(({ version }) => version).filter((version) => version !== ''))];
  const draining = nodes.filter(({ state }) => state === MemberState.MEMBER_STATE_LEAVING);
  return (
    <>
      {unreachable.length === 0 ? undefined : (
        <p class="note bad" role="alert">
          <strong>Not answering:</strong> {unreachable.map(visible).join(', ')}. What they hold is as last known.
        </p>
      )}
      {draining.map((member) => (
        <p class="note" key={member.nodeId}>
          <strong>
            <Text of={member.name} /> is being drained:
          </strong>{' '}
          {member.partitionsHeld === 0
            ? 'it has handed everything over.'
            : `${formatMany(member.partitionsHeld, 'partition')} left to hand over.`}
        </p>
      ))}
      <Tiles
        of={[
          {
            title: 'Nodes',
            value: formatCount(nodes.length),
            ...(down > 0 && { note: `${down} down` }),
            tone: down > 0 ? 'bad' : undefined,
          },
          { title: 'Partitions', value: formatCount(total) },
          { title: 'Not served', value: formatCount(unserved), tone: unserved > 0 ? 'bad' : undefined },
          { title: 'Moving', value: formatCount(moving.length) },
          { title: 'Proxies', value: formatCount(members.length - members.filter(isNode).length) },
          {
            title: versions.length > 1 ? 'Versions' : 'Version',
            value: versions.join(', ') || '–',
            ...(versions.length > 1 && { note: 'an upgrade is not complete', tone: 'warn' as const }),
          },
        ]}
      />
      <Section title="Members">
        <Members of={members} partitions={partitions} />
      </Section>
      <Section title="Partitions">
        <Ring partitions={partitions} nodes={nodes} />
      </Section>
      {moving.length === 0 ? undefined : (
        <Section title="Moves">
          <Table
            label="Moves"
            rows={moving}
            keyOf={({ id }) => String(id)}
            columns={[
              { key: 'id', title: 'Partition', cell: ({ id }) => id },
              { key: 'from', title: 'From', cell: ({ holder }) => <Text of={holder} most={60} /> },
              { key: 'to', title: 'To', cell: ({ movingTo }) => <Text of={movingTo} most={60} /> },
              {
                key: 'tasks',
                title: 'Tasks',
                isNumber: true,
                from: 'tablet',
                cell: ({ tasks }) => formatCount(tasks),
              },
              { key: 'rows', title: 'Rows sent', isNumber: true, cell: ({ movedRows }) => formatCount(movedRows) },
              { key: 'bytes', title: 'Sent', isNumber: true, cell: ({ movedBytes }) => formatBytes(movedBytes) },
            ]}
          />
        </Section>
      )}
      {of.log === undefined ? undefined : (
        <Section title="Log">
          <Log of={of.log} />
        </Section>
      )}
      <Section title="Changes seen by this page">
        {changes.length === 0 ? (
          <p class="quiet">None since this page began to watch, {<When at={watchedSince} />}.</p>
        ) : (
          <ol class="log">
            {changes.map(({ at, tone, text }, nth) => (
              <li key={`${at} ${changes.length - nth}`}>
                <When at={at} />
                <Badge tone={tone}>{tone === 'good' ? 'well' : tone === 'bad' ? 'trouble' : tone}</Badge>
                <Text of={text} most={300} />
              </li>
            ))}
          </ol>
        )}
      </Section>
    </>
  );
}

function Members({
  of,
  partitions,
}: {
  readonly of: readonly Member[];
  readonly partitions: readonly Partition[];
}): VNode {
  // As the picture of the partitions below.
  const byHolder = Map.groupBy(partitions, ({ holderNodeId }) => holderNodeId);
  const held = (nodeId: string): readonly Partition[] => byHolder.get(nodeId) ?? [];
  const names = Map.groupBy(
    of.filter(({ state }) => state !== MemberState.MEMBER_STATE_LEFT),
    ({ name }) => name,
  );
  return (
    <Table
      label="Members"
      rows={of}
      keyOf={({ nodeId, name, rpcAddress }) => `${nodeId} ${name} ${rpcAddress}`}
      columns={[
        {
          key: 'name',
          title: 'Name',
          cell: (member) => (
            <span class="cut" title={visible(member.nodeId)}>
              <Text of={member.name} most={60} /> {isNode(member) ? undefined : <span class="quiet">proxy</span>}
            </span>
          ),
        },
        { key: 'state', title: 'State', cell: (member) => <StateBadge of={member} /> },
        {
          key: 'partitions',
          title: 'Partitions',
          about: 'What it holds, of what it should hold',
          isNumber: true,
          cell: (member) => (isNode(member) ? `${held(member.nodeId).length}/${member.partitionsWanted}` : ''),
        },
        {
          key: 'tasks',
          title: 'Tasks',
          isNumber: true,
          from: 'tablet',
          cell: (member) =>
            isNode(member) ? formatCount(held(member.nodeId).reduce((sum, { tasks }) => sum + tasks, 0)) : '',
        },
        { key: 'version', title: 'Version', from: 'tablet', cell: ({ version }) => version || '–' },
        {
          key: 'address',
          title: 'gRPC',
          from: 'desktop',
          cell: ({ rpcAddress }) => <Text of={rpcAddress} most={60} />,
        },
        { key: 'http', title: 'HTTP', from: 'wide', cell: ({ httpAddress }) => <Text of={httpAddress} most={60} /> },
        {
          key: 'do',
          title: '',
          cell: (member) => <MemberAction of={member} isNamed={names.get(member.name)?.length === 1} />,
        },
      ]}
    />
  );
}

function StateBadge({ of }: { readonly of: Member }): VNode {
  if (of.state === MemberState.MEMBER_STATE_LEFT) {
    return <Badge tone="quiet">{of.removedBy === '' ? 'left' : `removed through ${of.removedBy}`}</Badge>;
  }
  if (!of.alive) return <Badge tone="bad">down</Badge>;
  if (of.suspect) return <Badge tone="warn">does not answer</Badge>;
  if (!isNode(of)) return <Badge tone="good">connected</Badge>;
  const tone = of.state === MemberState.MEMBER_STATE_ACTIVE ? 'good' : 'info';
  return <Badge tone={tone}>{stateNames[of.state] ?? 'unknown'}</Badge>;
}

/** `isNamed`: no other member has its name. */
function MemberAction({ of, isNamed }: { readonly of: Member; readonly isNamed: boolean }): VNode | undefined {
  if (!isNode(of) || of.state === MemberState.MEMBER_STATE_LEFT) return undefined;
  const meant = isNamed ? of.name : of.nodeId;
  return of.state === MemberState.MEMBER_STATE_LEAVING ? (
    <Resume of={of} meant={meant} />
  ) : (
    <Drain of={of} meant={meant} />
  );
}

const DOWN = 'It is down. A member that does not return is removed with the command line.';

/** `meant`: what names the member in a call. */
function Drain({ of, meant }: { readonly of: Member; readonly meant: string }): VNode {
  const shown = visible(of.name);
  return (
    <Action
      label="Drain…"
      right="manage-cluster"
      isDangerous
      title={`Drain ${shown}`}
      confirm={`Drain ${shown}`}
      impossible={of.alive ? undefined : DOWN}
      run={async () => {
        const { partitionsHeld: left } = await call('DrainMember', { name: meant });
        return `${shown} hands ${formatMany(left, 'partition')} over and leaves`;
      }}
    >
      <p>
        {shown} hands its {formatMany(of.partitionsHeld, 'partition')} over to the other members. Everything is served
        meanwhile, and until the last one is handed over you can resume the member. Then it leaves the cluster for ever
        and its process ends: to return, it joins as a new member.
      </p>
    </Action>
  );
}

/** `meant`: what names the member in a call. */
function Resume({ of, meant }: { readonly of: Member; readonly meant: string }): VNode {
  const shown = visible(of.name);
  return (
    <Action
      label="Resume…"
      right="manage-cluster"
      title={`Resume ${shown}`}
      confirm={`Keep ${shown}`}
      impossible={of.alive ? undefined : DOWN}
      run={async () => {
        const { partitionsHeld: held } = await call('ResumeMember', { name: meant });
        return `${shown} stays, with ${formatMany(held, 'partition')}; its share comes back`;
      }}
    >
      <p>
        The drain ends: {shown} keeps the {formatMany(of.partitionsHeld, 'partition')} that it still holds, and the
        others hand its share back. If it has handed everything over by now, it leaves.
      </p>
    </Action>
  );
}

function Log({ of }: { readonly of: readonly LoggedChange[] }): VNode {
  return (
    <Table
      label="What was done in the cluster"
      rows={mergedChanges(of)}
      keyOf={({ at, nodes, action, target }) => `${at} ${nodes} ${action} ${target}`}
      empty={<p>Nothing has been done since the nodes were started.</p>}
      columns={[
        { key: 'since', title: 'When', cell: ({ at }) => <When at={at} /> },
        {
          key: 'what',
          title: 'What',
          cell: ({ kind, action, target = '' }) => {
            const text = kind === 'membership' ? `Member ${target}: ${action}` : `${action} ${target}`;
            return (
              <span class="cut" title={visible(text)}>
                <Text of={text} most={160} />
              </span>
            );
          },
        },
        {
          key: 'who',
          title: 'Who',
          from: 'tablet',
          cell: ({ principal, address }) => <Text of={principal || address || '–'} most={60} />,
        },
        {
          key: 'result',
          title: 'Result',
          from: 'tablet',
          cell: ({ result }) => (
            <span class={result === 'ok' || result === '' ? 'quiet' : 'warn'}>{visible(result)}</span>
          ),
        },
        {
          key: 'node',
          title: 'Recorded by',
          from: 'desktop',
          cell: ({ nodes }) => <Text of={nodes.join(', ')} most={60} />,
        },
      ]}
    />
  );
}

/** Colours of members in the order of their names. */
const COLOURS = 8;

function Ring(props: { readonly partitions: readonly Partition[]; readonly nodes: readonly Member[] }): VNode {
  const names = props.nodes.map(({ name }) => name).sort();
  const colourOf = (holder: string): string => {
    const at = names.indexOf(holder);
    return at < 0 ? 'm-none' : `m-${at % COLOURS}`;
  };
  const held = (name: string): number => props.partitions.filter(({ holder }) => holder === name).length;
  const textOf = ({ id, holder, state, movingTo, tasks }: Partition): string => {
    const where =
      state === PARTITION_STATE_UNREACHABLE
        ? `not served, last held by ${visible(holder) || 'nobody'}`
        : `held by ${visible(holder)}`;
    return `Partition ${id}: ${where}${movingTo === '' ? '' : `, moving to ${visible(movingTo)}`}, ${formatMany(tasks, 'task')}`;
  };
  const classOf = (one: Partition): string =>
    [
      'part',
      colourOf(one.holder),
      one.state === PARTITION_STATE_UNREACHABLE ? 'lost' : '',
      one.state === PARTITION_STATE_MOVING || one.state === PARTITION_STATE_FROZEN ? 'moving' : '',
    ].join(' ');
  return (
    <>
      <p class="legend">
        {names.map((name) => (
          <span key={name}>
            <i class={`part ${colourOf(name)}`} /> <Text of={name} most={40} /> <b>{held(name)}</b>
          </span>
        ))}
      </p>
      <div class="ring" role="img" aria-label={names.map((name) => `${visible(name)} holds ${held(name)}`).join(', ')}>
        {props.partitions.map((one) => (
          <i key={one.id} class={classOf(one)} title={textOf(one)} />
        ))}
      </div>
    </>
  );
}
