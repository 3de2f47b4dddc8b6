import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import {
  type Attention,
  joined,
  type Overview,
  type OverviewHistory,
  type OverviewMember,
  withNow,
} from '../data/overview.ts';
import { usePoll } from '../data/poll.ts';
import { readJson } from '../data/rpc.ts';
import { serverNow } from '../data/session.ts';
import { Badge, Pending, Section, type Tile, Tiles, Unreachable } from '../parts/bits.tsx';
import { Chart } from '../parts/chart.tsx';
import { Table } from '../parts/table.tsx';
import { Name, Text, visible, When } from '../parts/text.tsx';
import { formatBytes, formatCount, formatDuration, formatRate, formatTime } from '../show/format.ts';
import { hashOf } from '../show/place.ts';

export function OverviewPage(): VNode {
  const history = useRef<OverviewHistory | undefined>(undefined);
  const { data, error } = usePoll('overview', async (signal) => {
    const last = history.current?.at.at(-1);
    const overview = await readJson<Overview>(last === undefined ? 'overview' : `overview?after=${last}`, signal);
    history.current = joined(history.current, overview.history);
    return { ...overview, history: history.current };
  });
  return (
    <>
      <h1>Overview</h1>
      {data === undefined ? <Pending error={error} /> : <Content of={data} />}
    </>
  );
}

function Content({ of }: { readonly of: Overview }): VNode {
  const { totals, attention, members, unreachable } = of;
  const history = withNow(of);
  const covered = (history.at.at(-1) ?? 0) - (history.at[0] ?? 0);
  const note = history.at.length > 1 ? `the last ${formatDuration(covered)}` : 'from now on';
  return (
    <>
      <Unreachable of={unreachable.map(({ reason, ...node }) => ({ ...node, problem: reason }))} />
      <Section title={attention.length === 0 ? 'Needs attention' : `Needs attention (${attention.length})`}>
        {attention.length === 0 ? (
          <p class="calm">
            <Badge tone="good">All well</Badge> Nothing needs attention.
          </p>
        ) : (
          <AttentionList of={attention} />
        )}
      </Section>
      <Tiles of={tilesOf(of)} />
      <div class="charts">
        <Chart
          title="Tasks per second"
          at={history.at}
          format={formatRate}
          note={note}
          series={[
            { label: 'enqueued', colour: '--c1', values: history.enqueued },
            { label: 'completed', colour: '--c2', values: history.completed },
            { label: 'failed', colour: '--c3', values: history.failed },
          ]}
        />
        <Chart
          title="Backlog"
          at={history.at}
          isCount
          format={(value) => formatCount(Math.round(value))}
          note={note}
          series={[
            { label: 'available', colour: '--c4', values: history.available },
            { label: 'leased', colour: '--c5', values: history.leased },
            { label: 'delayed', colour: '--c6', values: history.delayed },
          ]}
        />
      </div>
      {members.length === 0 ? undefined : <Members of={members} />}
      <p class="quiet small">
        {totals.queues === 0 ? (
          <>
            There are no queues yet. <code>taskmaster enqueue mail '{'{"to":"ada"}'}'</code> makes one.
          </>
        ) : (
          `As ${of.servedBy.role} ${visible(of.servedBy.name)} saw it at ${formatTime(of.at, serverNow())}.`
        )}
      </p>
    </>
  );
}

const partitionsText = (total: number | null): string => (total === null ? '?' : formatCount(total));

function tilesOf({ totals, partitions, members }: Overview): Tile[] {
  const unserved = partitions.unserved ?? 0;
  const moving = partitions.moving.length;
  const tiles: Tile[] = [
    { title: 'Queues', value: formatCount(totals.queues) },
    {
      title: 'Available',
      value: formatCount(totals.available),
      note: totals.deadLettered > 0 ? 'with dead letters' : 'wait for a worker',
    },
    { title: 'Leased', value: formatCount(totals.leased), note: 'are worked on' },
    { title: 'Delayed', value: formatCount(totals.delayed) },
    {
      title: 'Dead letters',
      value: formatCount(totals.deadLettered),
      ...(totals.deadLetterRate > 0 && { note: `${formatRate(totals.deadLetterRate)} now` }),
      tone: totals.deadLettered > 0 ? 'warn' : undefined,
    },
  ];
  // A node without a cluster serves all of them.
  if (members.length === 0) return tiles;
  return [
    ...tiles,
    {
      title: 'Partitions served',
      value: partitions.served === null ? '–' : `${formatCount(partitions.served)}/${partitionsText(partitions.total)}`,
      ...(moving > 0 && { note: `${moving} moving` }),
      tone: unserved > 0 ? 'bad' : undefined,
    },
  ];
}

const KINDS: Readonly<Record<string, string>> = {
  'member-down': 'member down',
  'member-unreachable': 'not answering',
  'partition-unserved': 'not served',
  'node-not-serving': 'not serving',
  'disk-nearly': 'disk almost full',
  'queue-old': 'old tasks',
  'queue-growing': 'grows',
  'queue-unworked': 'no worker',
  'queue-dying': 'tasks die',
  'queue-failing': 'attempts fail',
  'kind-unclaimed': 'unclaimed kind',
  'paused-long': 'long pause',
  'schedules-late': 'schedules late',
};

/** Where to act on it. */
function linkOf({ kind, queue, member }: Attention): string {
  if (queue !== undefined && queue !== '') return hashOf('queue', [queue]);
  if (kind === 'schedules-late') return hashOf('schedules');
  return member !== undefined || !kind.startsWith('queue') ? hashOf('cluster') : hashOf('queues');
}

/** More are shown when the user asks for them. */
const FIRST = 20;

function AttentionList({ of }: { readonly of: readonly Attention[] }): VNode {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? of : of.slice(0, FIRST);
  return (
    <>
      <ul class="attention">
        {shown.map((one) => (
          <AttentionRow key={`${one.kind} ${one.subject}`} of={one} />
        ))}
      </ul>
      {shown.length === of.length ? undefined : (
        <div class="buttons start">
          <button type="button" onClick={() => setWhole(true)}>
            Show {formatCount(of.length - shown.length)} more
          </button>
        </div>
      )}
    </>
  );
}

function AttentionRow({ of }: { readonly of: Attention }): VNode {
  const isCritical = of.severity === 'critical';
  return (
    <li class={isCritical ? 'bad' : 'warn'}>
      <Badge tone={isCritical ? 'bad' : 'warn'}>{KINDS[of.kind] ?? of.kind}</Badge>
      <a href={linkOf(of)}>{of.queue ? <Name of={of.queue} /> : <Text of={of.subject} most={120} />}</a>
      <span class="what">
        <Text of={of.message} most={400} />
      </span>
      <span class="since">
        {of.sinceIsExact ? 'since' : 'for at least'} <Since of={of} />
      </span>
    </li>
  );
}

function Since({ of }: { readonly of: Attention }): VNode {
  const now = serverNow();
  const lasts = formatDuration(Math.max(0, now - of.since));
  return (
    <time dateTime={new Date(of.since).toISOString()} title={new Date(of.since).toISOString()}>
      {of.sinceIsExact ? `${formatTime(of.since, now)} (${lasts})` : lasts}
    </time>
  );
}

function Members({ of }: { readonly of: readonly OverviewMember[] }): VNode {
  return (
    <Section title="Members" side={<a href="#/cluster">Cluster</a>}>
      <Table
        label="Members"
        rows={of}
        keyOf={({ id, address }) => id || address}
        columns={[
          {
            key: 'name',
            title: 'Name',
            cell: ({ name, role }) => (
              <>
                <Text of={name} most={60} /> {role === 'proxy' ? <span class="quiet">proxy</span> : undefined}
              </>
            ),
          },
          {
            key: 'state',
            title: 'State',
            cell: (member) => <MemberState of={member} />,
          },
          { key: 'since', title: 'Since', from: 'tablet', cell: ({ since }) => <When at={since ?? undefined} /> },
          {
            key: 'partitions',
            title: 'Partitions',
            isNumber: true,
            cell: ({ role, partitions, partitionsWanted }) =>
              role === 'proxy'
                ? ''
                : partitions === partitionsWanted
                  ? partitions
                  : `${partitions} of ${partitionsWanted}`,
          },
          {
            key: 'disk',
            title: 'Disk free',
            isNumber: true,
            from: 'tablet',
            cell: ({ disk }) => (disk === undefined ? '' : formatBytes(disk.freeBytes)),
          },
          {
            key: 'clock',
            title: 'Clock',
            about: 'How far its clock is off',
            isNumber: true,
            from: 'desktop',
            cell: ({ clockDifferenceMs }) => (clockDifferenceMs === null ? '' : `${Math.round(clockDifferenceMs)} ms`),
          },
          { key: 'version', title: 'Version', from: 'tablet', cell: ({ version }) => version },
          { key: 'address', title: 'Address', from: 'desktop', cell: ({ address }) => <Text of={address} /> },
        ]}
      />
    </Section>
  );
}

function MemberState({ of }: { readonly of: OverviewMember }): VNode {
  if (of.state === 'left') return <Badge tone="quiet">left</Badge>;
  if (!of.alive) return <Badge tone="bad">down</Badge>;
  if (of.suspect) return <Badge tone="warn">suspect</Badge>;
  if (of.role === 'proxy') return <Badge tone="good">connected</Badge>;
  if (of.state === 'leaving') return <Badge tone="info">draining</Badge>;
  if (of.state === 'joining') return <Badge tone="info">joining</Badge>;
  if (of.health !== undefined && of.health !== 'serving') return <Badge tone="warn">{of.health}</Badge>;
  return <Badge tone="good">serving</Badge>;
}
