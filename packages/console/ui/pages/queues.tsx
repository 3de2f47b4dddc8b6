import type { QueueStats } from '@taskmaster/proto/messages';
import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { historyOf } from '../data/history.ts';
import { usePoll } from '../data/poll.ts';
import { type ListedQueues, QueueListing, type VisibleRows } from '../data/queue-listing.ts';
import { setQuery } from '../data/route.ts';
import { serverNow } from '../data/session.ts';
import { Badge, Pending, TONES, Unreachable } from '../parts/bits.tsx';
import { Spark } from '../parts/chart.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Name, Text, visible } from '../parts/text.tsx';
import { formatCount, formatDuration, formatMany, formatRate, formatShort } from '../show/format.ts';
import type { PageProps } from '../show/place.ts';
import { hashOf } from '../show/place.ts';
import { type SortKey, type Trouble, troubleOf } from '../show/trouble.ts';

/** A queue with what is wrong with it. */
interface QueueRow {
  readonly stats: QueueStats;
  readonly trouble: Trouble;
}

const sorts: readonly SortKey[] = ['trouble', 'name', 'available', 'leased', 'delayed', 'oldest', 'in', 'out'];
/** An order that is older is told, in ms. */
const OLD_ORDER_MS = 10_000;

export function QueuesPage({ place }: PageProps): VNode {
  const search = place.query.get('q') ?? '';
  const asked = place.query.get('sort');
  const sort = sorts.find((one) => one === asked) ?? 'trouble';
  const group = place.query.get('group') ?? undefined;
  const key = JSON.stringify([search, group, sort]);
  const listing = useMemo(() => new QueueListing({ search, group, sort }), [key]);
  const visible = useRef<VisibleRows>({ from: 0, to: 0 });
  const { data, error, again } = usePoll<ListedQueues>(key, (signal, publish) =>
    listing.update(visible.current, signal, publish),
  );

  const rows = useMemo(() => data?.queues.map((stats) => ({ stats, trouble: troubleOf(stats) })) ?? [], [data?.queues]);
  const orderAge = data === undefined ? 0 : Date.now() - data.orderedAt;
  return (
    <>
      <div class="head">
        <h1>Queues</h1>
        <Search search={search} />
        <span class="quiet" role="status">
          {data === undefined ? '' : countText(rows, data)}
          {orderAge > OLD_ORDER_MS ? `, order ${formatDuration(orderAge)} old` : ''}
        </span>
      </div>
      {group === undefined ? undefined : (
        <p class="note">
          Only the group <Name of={`${group}#`} />. <a href={hashOf('queues', [], { q: search })}>Show all groups</a>
        </p>
      )}
      {data === undefined ? undefined : <Unreachable of={data.unreachable} />}
      {data === undefined ? (
        <Pending error={error} />
      ) : (
        <Table
          label="Queues"
          columns={columnsOf(sort)}
          rows={rows}
          keyOf={({ stats }) => stats.queue}
          rowClass={({ trouble }) => `t-${TONES[trouble.urgency]}`}
          onWindow={(from, to) => {
            const isMore = to > visible.current.to && to > rows.length - 10 && !data.isWhole;
            visible.current = { from, to };
            if (isMore) again();
          }}
          empty={search === '' ? <NoQueues /> : <p>No queue matches this expression.</p>}
        />
      )}
      {data === undefined || data.isWhole ? undefined : <p class="quiet small">More are listed when you go on.</p>}
    </>
  );
}

function NoQueues(): VNode {
  return (
    <>
      <h2>No queue has tasks</h2>
      <p>The first task makes a queue:</p>
      <pre>{`taskmaster enqueue mail '{"to":"ada"}'`}</pre>
    </>
  );
}

function countText(rows: readonly QueueRow[], { isWhole, total }: ListedQueues): string {
  const troubled = rows.filter(({ trouble }) => trouble.urgency >= 2).length;
  const queues = isWhole
    ? formatMany(rows.length, 'queue')
    : total === undefined
      ? `more than ${formatMany(rows.length, 'queue')}`
      : formatMany(total, 'queue');
  const more = troubled === rows.length && !isWhole ? 'more than ' : '';
  return `${queues}${troubled > 0 ? `, ${more}${formatCount(troubled)} in trouble` : ''}`;
}

/** How long the user may pause before what is typed is searched for, in ms. */
const TYPING_MS = 300;

function Search({ search }: { readonly search: string }): VNode {
  const [text, setText] = useState(search);
  // A link may lead to another search while the field has one.
  useEffect(() => setText(search), [search]);
  useEffect(() => {
    if (text === search) return undefined;
    const timer = setTimeout(() => setQuery({ q: text }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <search>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setQuery({ q: text });
        }}
      >
        <input
          data-search
          type="search"
          aria-label="Search queues by an expression (RE2)"
          placeholder="Search: ^crawl#|mail   ( / )"
          title="An RE2 expression that matches anywhere in group#name. Anchor it with ^ and $."
          spellcheck={false}
          autocomplete="off"
          maxLength={256}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </form>
    </search>
  );
}

/** What is wrong, and since when. */
export function TroubleText({ of, whole = false }: { readonly of: Trouble; readonly whole?: boolean }): VNode {
  if (of.urgency === 0) return <span class="quiet">–</span>;
  return (
    <span class={whole ? 'trouble' : 'cut'} title={visible(of.text)}>
      <Badge tone={TONES[of.urgency]}>
        <Text of={of.text} most={200} />
      </Badge>{' '}
      {of.since === undefined ? undefined : (
        <span class="quiet small">
          {of.sinceIsExact ? 'for ' : 'for at least '}
          {formatShort(Math.max(0, serverNow() - of.since))}
        </span>
      )}
    </span>
  );
}

const zero = (isZero: boolean, text: string): VNode => <span class={isZero ? 'zero' : ''}>{text}</span>;
const rate = (perSecond: number): VNode => zero(formatRate(perSecond) === formatRate(0), formatRate(perSecond));

function columnsOf(sort: SortKey): Column<QueueRow>[] {
  const sortable = (by: SortKey): Pick<Column<QueueRow>, 'onSort' | 'sorted'> => ({
    onSort: () => setQuery({ sort: by }),
    sorted: sort !== by ? undefined : by === 'name' ? 'ascending' : 'descending',
  });
  const count = (key: 'available' | 'leased' | 'delayed', title: string, about: string): Column<QueueRow> => ({
    key,
    title,
    about,
    isNumber: true,
    ...(key !== 'available' && { from: 'tablet' as const }),
    ...sortable(key),
    cell: ({ stats }) => zero(stats[key] === 0, formatCount(stats[key])),
  });
  return [
    {
      key: 'name',
      title: 'Queue',
      ...sortable('name'),
      cell: ({ stats, trouble }) => (
        <>
          <a class="cut" href={hashOf('queue', [stats.queue])}>
            <Name of={stats.queue} />
          </a>
          {trouble.urgency === 0 ? undefined : (
            <span class={`phone cut small ${TONES[trouble.urgency]}`}>
              <Text of={trouble.text} most={120} />
            </span>
          )}
        </>
      ),
    },
    {
      key: 'trouble',
      title: 'Trouble',
      about: 'What is wrong with it. The worst comes first.',
      from: 'tablet',
      ...sortable('trouble'),
      cell: ({ trouble }) => <TroubleText of={trouble} />,
    },
    count('available', 'Available', 'Tasks that wait for a worker'),
    count('leased', 'Leased', 'Tasks that are worked on'),
    count('delayed', 'Delayed', 'Tasks that are hidden for a time'),
    {
      key: 'oldest',
      title: 'Oldest',
      about: 'How long the oldest task waits or is worked on',
      isNumber: true,
      ...sortable('oldest'),
      cell: ({ stats }) =>
        zero(stats.oldestAgeMs === 0, stats.oldestAgeMs === 0 ? '–' : formatShort(stats.oldestAgeMs)),
    },
    {
      key: 'in',
      title: 'In',
      about: 'Tasks enqueued per second, over about a minute',
      isNumber: true,
      from: 'desktop',
      ...sortable('in'),
      cell: ({ stats }) => rate(stats.enqueueRate),
    },
    {
      key: 'out',
      title: 'Out',
      about: 'Tasks completed per second, over about a minute',
      isNumber: true,
      from: 'desktop',
      ...sortable('out'),
      cell: ({ stats }) => rate(stats.completeRate),
    },
    {
      key: 'spark',
      title: 'Backlog',
      about: 'Available tasks in the last half hour, as far as its node has kept samples',
      from: 'wide',
      cell: ({ stats }) => {
        const values = historyOf(stats, serverNow()).available.map((value) => value ?? 0);
        return <Spark values={values.slice(-120)} label={`Available tasks: ${formatCount(stats.available)}`} />;
      },
    },
  ];
}
