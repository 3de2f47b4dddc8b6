import {
  BulkAction,
  type BulkRun,
  type ListQueueSettingsResponse,
  PeekKind,
  parseQueueName,
  type QueueStats,
  type TaskInfo,
} from '@taskmaster/proto/messages';
import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { historyOf } from '../data/history.ts';
import { usePoll } from '../data/poll.ts';
import { setQuery } from '../data/route.ts';
import { call } from '../data/rpc.ts';
import { serverNow } from '../data/session.ts';
import { Action } from '../parts/action.tsx';
import { Pending, Tabs, Tiles } from '../parts/bits.tsx';
import { BulkButton } from '../parts/bulk-action.tsx';
import { Chart } from '../parts/chart.tsx';
import { Name, Text, visible, When } from '../parts/text.tsx';
import { agreedStats } from '../show/agreed-stats.ts';
import { formatCount, formatDuration, formatMany, formatRate, formatShort } from '../show/format.ts';
import type { PageProps } from '../show/place.ts';
import { hashOf } from '../show/place.ts';
import { troubleOf } from '../show/trouble.ts';
import { BulkRuns } from './queue/bulk-runs.tsx';
import { DeadLetters } from './queue/dead-letters.tsx';
import { QueueSettingsView } from './queue/settings.tsx';
import { DelayedTasks, HeadTasks, LeasedTasks } from './queue/tasks.tsx';
import { TroubleText } from './queues.tsx';

const TABS = ['head', 'leased', 'delayed', 'dead', 'settings', 'runs'] as const;
type TabKey = (typeof TABS)[number];

interface QueueData {
  readonly stats: QueueStats;
  readonly settings: ListQueueSettingsResponse;
  /** Tasks of the tab; of the dead-letter queue for dead letters. */
  readonly tasks: readonly TaskInfo[];
  readonly waiting: readonly TaskInfo[];
  readonly dead: QueueStats | undefined;
  readonly runs: readonly BulkRun[];
}

/** Tasks that a tab shows. */
const SHOWN = 100;
/** Dead letters that are grouped. */
const GROUPED = 1_000;

async function load(queue: string, tab: TabKey, afterPid: Uint8Array, signal: AbortSignal): Promise<QueueData> {
  const peek = (kind: PeekKind, limit: number, of = queue, after?: Uint8Array): Promise<readonly TaskInfo[]> =>
    call('PeekTasks', { queue: of, kind, limit, ...(after && { afterPid: after }) }, signal).then(({ tasks }) => tasks);
  const settings = await call('ListQueueSettings', { queue }, signal);
  const deadQueue = settings.effective?.deadLetterQueue ?? '';
  const names = deadQueue === '' || deadQueue === queue ? [queue] : [queue, deadQueue];
  const [{ queues }, tasks, waiting, runs] = await Promise.all([
    call('GetQueueStats', { queues: names, includeWatch: true }, signal),
    tab === 'head'
      ? peek(PeekKind.PEEK_KIND_HEAD, SHOWN, queue, afterPid)
      : tab === 'leased'
        ? peek(PeekKind.PEEK_KIND_LEASED, GROUPED)
        : tab === 'delayed'
          ? peek(PeekKind.PEEK_KIND_DELAYED, SHOWN)
          : tab === 'dead'
            ? peek(PeekKind.PEEK_KIND_HEAD, GROUPED, names.at(-1) ?? queue)
            : [],
    tab === 'delayed' ? peek(PeekKind.PEEK_KIND_WAITING, SHOWN) : [],
    tab === 'runs' ? call('ListBulkRuns', { queue }, signal).then((reply) => reply.runs) : [],
  ]);
  const [told, dead] = queues;
  if (told === undefined) throw new Error('the reply has no statistics');
  const data = { stats: told, settings, tasks, waiting, dead, runs };
  const isOwn = names.length === 1;
  switch (tab) {
    case 'head':
      return afterPid.length > 0 ? data : { ...data, stats: agreedStats(told, 'available', tasks.length, SHOWN) };
    case 'leased':
      return { ...data, stats: agreedStats(told, 'leased', tasks.length, GROUPED) };
    case 'delayed': {
      const limit = Math.max(tasks.length, waiting.length) < SHOWN ? GROUPED : 0;
      return { ...data, stats: agreedStats(told, 'delayed', tasks.length + waiting.length, limit) };
    }
    case 'dead':
      return isOwn
        ? { ...data, stats: agreedStats(told, 'available', tasks.length, GROUPED) }
        : { ...data, dead: dead && agreedStats(dead, 'available', tasks.length, GROUPED) };
    default:
      return data;
  }
}

const NO_PID = new Uint8Array(0);

export function QueuePage({ place }: PageProps): VNode {
  const queue = place.names[0] ?? '';
  const asked = place.query.get('tab');
  const tab = TABS.find((one) => one === asked) ?? 'head';
  const [after, setAfter] = useState(NO_PID);
  const {
    data: latest,
    error,
    again,
  } = usePoll(`queue ${queue}`, async (signal) => ({
    tab,
    data: await load(queue, tab, after, signal),
  }));
  // What another tab shows is asked for at once, and not with the next poll.
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else again();
  }, [tab, after]);
  const data = latest?.data;
  if (data === undefined) {
    return (
      <>
        <Title queue={queue} />
        <Pending error={error} />
      </>
    );
  }
  const { stats, settings, dead } = data;
  const letters = isDeadLetterQueue(settings, queue) ? stats : dead;
  return (
    <>
      <Title queue={queue} stats={stats}>
        <Actions queue={queue} stats={stats} settings={settings} />
      </Title>
      <Notes stats={stats} />
      <Tiles
        of={[
          { title: 'Available', value: formatCount(stats.available), note: 'wait for a worker' },
          { title: 'Leased', value: formatCount(stats.leased), note: attemptText(stats) },
          {
            title: 'Delayed',
            value: formatCount(stats.delayed),
            ...(stats.waiting > 0 && { note: `${formatCount(stats.waiting)} wait for others` }),
          },
          {
            title: 'Oldest task',
            value: stats.oldestAgeMs === 0 ? '–' : formatShort(stats.oldestAgeMs),
            note: 'available or leased',
          },
          { title: 'Completed', value: formatCount(stats.completed), note: 'since it was created' },
          {
            title: 'Dead letters',
            value: formatCount(letters?.available ?? 0),
            tone: (letters?.available ?? 0) > 0 ? 'warn' : undefined,
          },
        ]}
      />
      <Charts stats={stats} />
      <Tabs
        label="Tasks and settings"
        chosen={tab}
        onChoose={(key) => {
          setAfter(NO_PID);
          setQuery({ tab: key });
        }}
        of={[
          { key: 'head', title: 'Head', count: formatCount(stats.available) },
          { key: 'leased', title: 'Leased', count: formatCount(stats.leased) },
          { key: 'delayed', title: 'Delayed', count: formatCount(stats.delayed) },
          { key: 'dead', title: 'Dead letters', count: formatCount(letters?.available ?? 0) },
          { key: 'settings', title: 'Settings' },
          { key: 'runs', title: 'Bulk runs' },
        ]}
      />
      <div role="tabpanel" aria-label={tab}>
        {latest?.tab !== tab ? (
          <p class="empty">Loading…</p>
        ) : tab === 'head' ? (
          <HeadTasks
            of={data.tasks}
            isFirst={after.length === 0}
            isLast={data.tasks.length < SHOWN}
            onAfter={setAfter}
          />
        ) : tab === 'leased' ? (
          <LeasedTasks of={data.tasks} total={stats.leased} />
        ) : tab === 'delayed' ? (
          <DelayedTasks of={data.tasks} waiting={data.waiting} queue={queue} stats={stats} />
        ) : tab === 'dead' ? (
          <DeadLetters
            queue={letters?.queue ?? queue}
            from={queue}
            total={letters?.available ?? 0}
            tasks={data.tasks}
          />
        ) : tab === 'settings' ? (
          <QueueSettingsView of={settings} queue={queue} />
        ) : (
          <BulkRuns of={data.runs} queue={queue} />
        )}
      </div>
    </>
  );
}

const isDeadLetterQueue = ({ effective }: ListQueueSettingsResponse, queue: string): boolean =>
  effective?.deadLetterQueue === queue || queue.endsWith('.dead');

const attemptText = ({ meanLeaseMs }: QueueStats): string =>
  meanLeaseMs === 0 ? '' : `${formatDuration(meanLeaseMs)} on average`;

function Title(props: { readonly queue: string; readonly stats?: QueueStats; readonly children?: VNode }): VNode {
  const { stats } = props;
  const { group } = parseQueueName(props.queue);
  return (
    <div class="head title">
      <div>
        <p class="crumbs">
          <a href="#/queues">Queues</a>
          {group === '' ? undefined : (
            <>
              {' / '}
              <a href={hashOf('queues', [], { group })}>
                <Text of={group} most={60} />
              </a>
            </>
          )}
        </p>
        <h1>
          <Name of={props.queue} whole />
        </h1>
        {stats === undefined ? undefined : <Troubles of={stats} />}
      </div>
      {props.children === undefined ? undefined : <div class="actions">{props.children}</div>}
    </div>
  );
}

function Troubles({ of }: { readonly of: QueueStats }): VNode {
  const [, ...others] = of.watch?.troubles ?? [];
  const first = troubleOf(of);
  return (
    <>
      {first.urgency === 0 ? undefined : <TroubleText of={first} whole />}
      {others.map((one) => (
        <TroubleText
          whole
          key={one.kind}
          of={troubleOf({ ...of, watch: { failureRate: 0, troubles: [one], history: undefined } })}
        />
      ))}
    </>
  );
}

function Notes({ stats }: { readonly stats: QueueStats }): VNode {
  const { pause, heldBy, kinds } = stats;
  const unclaimed = kinds?.most.filter(({ unclaimedSinceUnixMs }) => unclaimedSinceUnixMs !== undefined) ?? [];
  return (
    <>
      {pause === undefined ? undefined : (
        <p class="note">
          <strong>Paused</strong> <When at={pause.sinceUnixMs} /> by <Text of={pause.pausedBy} most={80} />
          {pause.queues === stats.queue ? '' : ` (all queues that match ${visible(pause.queues)})`}
          {pause.untilUnixMs === 0 ? (
            ', until it is resumed'
          ) : (
            <>
              , ends <When at={pause.untilUnixMs} />
            </>
          )}
          {pause.reason === '' ? '' : ': '}
          <Text of={pause.reason} most={256} />
        </p>
      )}
      {stats.available + stats.leased + stats.delayed > 0 ? undefined : (
        <p class="quiet">It has no tasks now. A queue exists while it has tasks.</p>
      )}
      {heldBy.map((limit) => (
        <p class="note" key={`${limit.queues} ${limit.keys}`}>
          <strong>Held back</strong> by the limit of <Text of={limit.queues} most={120} />
          {limit.keys === '' ? '' : ` for each key ${visible(limit.keys)}`}: {formatCount(limit.leased)} leased
          {limit.maxLeased > 0 ? ` of at most ${formatCount(limit.maxLeased)}` : ''}, used up{' '}
          <When at={limit.usedUpSinceUnixMs} />.
        </p>
      ))}
      {unclaimed.length === 0 ? undefined : (
        <p class="note">
          <strong>Nobody runs</strong>{' '}
          {unclaimed.map(({ kind, available, unclaimedSinceUnixMs }) => (
            <span key={kind}>
              <code>
                <Text of={kind} most={60} />
              </code>{' '}
              ({formatMany(available, 'task')}, since <When at={unclaimedSinceUnixMs} />){' '}
            </span>
          ))}
        </p>
      )}
    </>
  );
}

function Charts({ stats }: { readonly stats: QueueStats }): VNode {
  const history = useMemo(() => historyOf(stats, serverNow()), [stats]);
  const covered = (history.at.at(-1) ?? 0) - (history.at[0] ?? 0);
  const note = covered > 0 ? `the last ${formatDuration(covered)}` : 'from now on';
  return (
    <div class="charts">
      <Chart
        title="Tasks per second"
        at={history.at}
        format={formatRate}
        note={note}
        series={[
          { label: 'enqueued', colour: '--c1', values: history.enqueueRate },
          { label: 'completed', colour: '--c2', values: history.completeRate },
          { label: 'failed', colour: '--c3', values: history.failureRate },
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
  );
}

const PAUSES: readonly (readonly [ms: number, text: string])[] = [
  [0, 'until it is resumed'],
  [15 * 60_000, 'for 15 minutes'],
  [3_600_000, 'for an hour'],
  [8 * 3_600_000, 'for 8 hours'],
];

function Actions(props: {
  readonly queue: string;
  readonly stats: QueueStats;
  readonly settings: ListQueueSettingsResponse;
}): VNode {
  const { queue, stats } = props;
  const { group } = parseQueueName(queue);
  const [reason, setReason] = useState('');
  const [durationMs, setDurationMs] = useState(0);
  const total = stats.available + stats.leased + stats.delayed;
  const shown = visible(queue);
  const { pause } = stats;
  return (
    <>
      {pause === undefined ? (
        <Action
          label="Pause…"
          right="manage-queues"
          group={group}
          title={`Pause ${shown}`}
          confirm="Pause"
          run={async () => {
            await call('PauseQueues', { queues: queue, reason, durationMs });
            return `Paused ${shown}`;
          }}
        >
          <p>
            Workers get no tasks of it any more:{' '}
            {formatMany(stats.available, 'available task waits', 'available tasks wait')}.{' '}
            {formatMany(stats.leased, 'leased task goes', 'leased tasks go')} on to the end. Enqueues go on, too.
          </p>
          <div class="fields">
            <div>
              <label for="pause-for">How long</label>
              <select id="pause-for" onChange={(event) => setDurationMs(Number(event.currentTarget.value))}>
                {PAUSES.map(([ms, text]) => (
                  <option key={ms} value={ms} selected={ms === durationMs}>
                    {text}
                  </option>
                ))}
              </select>
            </div>
            <div>
              <label for="pause-reason">Why</label>
              <input
                id="pause-reason"
                value={reason}
                maxLength={256}
                placeholder="told to everybody who looks"
                onInput={(event) => setReason(event.currentTarget.value)}
              />
            </div>
          </div>
          {queue.includes('*') ? (
            <p class="note">The name has a *, so other queues may be paused with it.</p>
          ) : undefined}
        </Action>
      ) : (
        <Action
          label="Resume…"
          primary
          right="manage-queues"
          group={group}
          title={`Resume ${visible(pause.queues)}`}
          confirm="Resume"
          run={async () => {
            const { resumed, pauses } = await call('ResumeQueues', { queues: pause.queues });
            const still = pauses.map(({ queues }) => visible(queues)).join(', ');
            if (!resumed) return 'It was not paused any more';
            return `Resumed ${visible(pause.queues)}${still === '' ? '' : `; still paused by ${still}`}`;
          }}
        >
          <p>
            {pause.queues === queue
              ? `Workers get its ${formatMany(stats.available, 'available task')} again.`
              : `The pause is of all queues that match ${visible(pause.queues)}: workers get tasks of all of them again.`}
          </p>
        </Action>
      )}
      <Action
        label="Reset leases…"
        right="manage-queues"
        group={group}
        isDangerous
        title={`Reset ${formatMany(stats.leased, 'lease')} of ${shown}`}
        confirm={`Reset ${formatMany(stats.leased, 'lease')}`}
        impossible={stats.leased === 0 ? 'No task of it is leased.' : undefined}
        run={async () => {
          const { resetTasks } = await call('ResetLeases', { queue });
          return `Reset ${formatMany(resetTasks, 'lease')} of ${shown}`;
        }}
      >
        <p>
          The tasks are available at once, and other workers get them. The workers that have them now lose their leases:
          work that they have done may be done a second time.
        </p>
      </Action>
      <BulkButton
        queue={queue}
        action={BulkAction.BULK_ACTION_DELETE}
        label="Drop tasks…"
        impossible={total === 0 ? 'It has no tasks.' : undefined}
      />
      <Action
        label="Delete…"
        right="manage-queues"
        group={group}
        isDangerous
        title={`Delete ${shown} with ${formatMany(total, 'task')}`}
        confirm={`Delete the queue and ${formatMany(total, 'task')}`}
        impossible={total === 0 ? 'It has no tasks, so there is nothing to delete.' : undefined}
        run={async () => {
          const { deletedTasks } = await call('DeleteQueue', { queue });
          return `Deleted ${shown} with ${formatMany(deletedTasks, 'task')}`;
        }}
      >
        <p>
          All its tasks are gone for ever: {formatCount(stats.available)} available, {formatCount(stats.leased)} leased,{' '}
          {formatCount(stats.delayed)} delayed. Its dead letters are in another queue, and stay. This cannot be undone.
        </p>
      </Action>
    </>
  );
}
