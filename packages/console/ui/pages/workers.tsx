import type { VNode } from 'preact';
import { useMemo } from 'preact/hooks';
import { usePoll } from '../data/poll.ts';
import { serverNow } from '../data/session.ts';
import { type SeenWorker, type Workers, WorkerWatch } from '../data/worker-watch.ts';
import { Badge, Pending, Unreachable } from '../parts/bits.tsx';
import { Table } from '../parts/table.tsx';
import { Name, Text, visible } from '../parts/text.tsx';
import { formatAgo, formatCount, formatDuration, formatMany, formatRate, formatShort } from '../show/format.ts';
import { hashOf } from '../show/place.ts';
import { workerName } from '../show/workers.ts';

/** Older than the last update, in ms. */
const OLD_MS = 10_000;

export function WorkersPage(): VNode {
  const watch = useMemo(() => new WorkerWatch(), []);
  const { data, error } = usePoll('workers', (signal) => watch.update(signal), 3_000);
  return (
    <>
      <div class="head">
        <h1>Workers</h1>
        {data === undefined ? undefined : (
          <span class="quiet" role="status">
            {formatMany(data.workers.length, 'worker')}, {formatMany(data.leased, 'leased task')} in{' '}
            {formatMany(data.queues, 'queue')}
          </span>
        )}
      </div>
      {data === undefined ? (
        <Pending error={error} />
      ) : (
        <>
          <Unreachable of={data.unreachable} />
          <Table
            label="Workers, those with the most tasks first"
            rows={data.workers}
            keyOf={workerName}
            empty={<p>No worker holds a task. Idle workers are seen when they lease one.</p>}
            columns={[
              {
                key: 'label',
                title: 'Worker',
                cell: (worker) => (
                  <span class="cut" title={visible(workerName(worker))}>
                    <Text of={workerName(worker)} most={100} />
                    {worker.completeRate === undefined || worker.failRate === undefined ? undefined : (
                      <span class="phone quiet small">
                        completes {formatRate(worker.completeRate)}, fails {formatRate(worker.failRate)}
                      </span>
                    )}
                  </span>
                ),
              },
              {
                key: 'address',
                title: 'Address',
                about: 'Of its connections to nodes. Clients of one process share them',
                from: 'desktop',
                cell: ({ addresses }) => (
                  <span class="cut" title={addresses.join(', ')}>
                    <Text of={addresses.join(', ')} most={80} />
                  </span>
                ),
              },
              { key: 'holds', title: 'Holds', isNumber: true, cell: ({ tasks }) => formatCount(tasks.length) },
              { key: 'queues', title: 'Queues', from: 'tablet', cell: (worker) => <QueuesOf of={worker} /> },
              {
                key: 'longest',
                title: 'Longest',
                about: 'How long it has its oldest task',
                isNumber: true,
                cell: longest,
              },
              {
                key: 'done',
                title: 'Completes',
                about: 'Tasks per second, while this page is open',
                isNumber: true,
                from: 'tablet',
                cell: ({ label, completeRate }) =>
                  completeRate === undefined ? unknownRate(label) : formatRate(completeRate),
              },
              {
                key: 'failed',
                title: 'Fails',
                about: 'Attempts per second, while this page is open',
                isNumber: true,
                from: 'tablet',
                cell: ({ label, failRate }) =>
                  failRate === undefined ? (
                    unknownRate(label)
                  ) : (
                    <span class={failRate > 0 ? 'warn' : 'zero'}>{formatRate(failRate)}</span>
                  ),
              },
              {
                key: 'seen',
                title: 'Seen',
                from: 'desktop',
                cell: ({ tasks, seenAt }) =>
                  tasks.length > 0 ? <Badge tone="good">works</Badge> : formatAgo(seenAt, Date.now()),
              },
            ]}
          />
          <p class="quiet small">
            {ageOf(data)}
            {data.isBehind ? 'More happens than the page reads, so rates are higher than shown. ' : ''}
            {ratesText(data)} Workers without a label have no rates, and those that share a connection are one row.
          </p>
        </>
      )}
    </>
  );
}

/** Workers without a label have none. The others have one soon. */
const unknownRate = (label: string): VNode => <span class="quiet">{label === '' ? '–' : '…'}</span>;

const ratesText = ({ countedMs }: Workers): string =>
  countedMs === 0
    ? 'Rates are counted from now on, and come in a few seconds.'
    : `Rates are of the last ${formatDuration(countedMs)}: they are counted while this page is open, for a minute at most.`;

/** Says how old the list is, if there are too many queues to look at all of them each time. */
function ageOf({ lookedAt, queues, oldestLook }: Workers): string {
  if (lookedAt < queues) return `${formatMany(lookedAt, 'queue')} of ${formatCount(queues)} are looked at so far. `;
  const age = Date.now() - oldestLook;
  return age > OLD_MS ? `Queues with few leased tasks were looked at up to ${formatDuration(age)} ago. ` : '';
}

function longest({ tasks }: SeenWorker): string {
  if (tasks.length === 0) return '–';
  const since = tasks.reduce((least, { leasedUnixMs }) => Math.min(least, leasedUnixMs), Number.POSITIVE_INFINITY);
  return formatShort(Math.max(0, serverNow() - since));
}

function QueuesOf({ of }: { readonly of: SeenWorker }): VNode {
  const queues = [...Map.groupBy(of.tasks, ({ queue }) => queue)].sort(([, a], [, b]) => b.length - a.length);
  return (
    <span class="cut">
      {queues.slice(0, 3).map(([queue, tasks]) => (
        <a key={queue} class="chip" href={hashOf('queue', [queue], { tab: 'leased' })}>
          <Name of={queue} /> <b>{formatCount(tasks.length)}</b>
        </a>
      ))}
      {queues.length > 3 ? ` and ${queues.length - 3} more` : ''}
    </span>
  );
}
