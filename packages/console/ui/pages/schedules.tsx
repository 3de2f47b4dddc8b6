import { MissedRuns, parseQueueName, type Schedule, type UnreachableNode } from '@taskmaster/proto/messages';
import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { usePoll } from '../data/poll.ts';
import { call } from '../data/rpc.ts';
import { serverNow } from '../data/session.ts';
import { Action } from '../parts/action.tsx';
import { Badge, Facts, Pending, Unreachable } from '../parts/bits.tsx';
import { Payload } from '../parts/payload.tsx';
import { Table } from '../parts/table.tsx';
import { Name, Text, visible, When } from '../parts/text.tsx';
import { pidText } from '../show/bytes.ts';
import { formatCount, formatDuration, formatMany, formatTime } from '../show/format.ts';
import { hashOf } from '../show/place.ts';

const NEXT_RUNS = 5;
const PAGE = 1_000;

interface Schedules {
  readonly schedules: readonly Schedule[];
  readonly unreachable: readonly UnreachableNode[];
}

async function load(signal: AbortSignal): Promise<Schedules> {
  const schedules: Schedule[] = [];
  const unreachable = new Map<string, UnreachableNode>();
  for (let pageToken = ''; ; ) {
    const reply = await call('ListSchedules', { nextRuns: NEXT_RUNS, limit: PAGE, pageToken }, signal);
    schedules.push(...reply.schedules);
    for (const node of reply.unreachable) unreachable.set(node.nodeId, node);
    pageToken = reply.nextPageToken;
    if (pageToken === '') return { schedules, unreachable: [...unreachable.values()] };
  }
}

export function SchedulesPage(): VNode {
  const { data, error } = usePoll('schedules', load, 4_000);
  const [search, setSearch] = useState('');
  const [chosen, choose] = useState<string | undefined>(undefined);
  const rows = data?.schedules.filter(({ schedule, spec }) => `${schedule} ${spec?.queue}`.includes(search)) ?? [];
  const open = rows.find(({ schedule }) => schedule === chosen);
  return (
    <>
      <div class="head">
        <h1>Schedules</h1>
        <input
          data-search
          type="search"
          aria-label="Search schedules"
          placeholder="Search   ( / )"
          value={search}
          spellcheck={false}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <span class="quiet" role="status">
          {data === undefined ? '' : formatMany(rows.length, 'schedule')}
        </span>
      </div>
      {data === undefined ? undefined : <Unreachable of={data.unreachable} />}
      {data === undefined ? (
        <Pending error={error} />
      ) : (
        <Table
          label="Schedules"
          rows={rows}
          keyOf={({ schedule }) => schedule}
          rowClass={({ schedule }) => (schedule === chosen ? 'chosen' : '')}
          empty={
            <>
              <h2>There are no schedules</h2>
              <pre>{`taskmaster schedules put nightly --queue mail --cron '0 3 * * *' '{"to":"ada"}'`}</pre>
            </>
          }
          columns={[
            {
              key: 'name',
              title: 'Schedule',
              cell: ({ schedule }) => (
                <button
                  type="button"
                  class="plain link cut"
                  aria-expanded={schedule === chosen}
                  onClick={() => choose(schedule === chosen ? undefined : schedule)}
                >
                  <Name of={schedule} />
                </button>
              ),
            },
            { key: 'rule', title: 'When', from: 'tablet', cell: ruleOf },
            {
              key: 'queue',
              title: 'Queue',
              from: 'desktop',
              cell: ({ spec }) => (
                <a class="cut" href={hashOf('queue', [spec?.queue ?? ''])}>
                  <Name of={spec?.queue ?? ''} />
                </a>
              ),
            },
            {
              key: 'next',
              title: 'Next run',
              cell: ({ paused, nextRunsUnixMs }) =>
                paused ? (
                  <Badge tone="info">paused</Badge>
                ) : nextRunsUnixMs[0] === undefined ? (
                  <Badge tone="quiet">no more</Badge>
                ) : (
                  <When at={nextRunsUnixMs[0]} />
                ),
            },
            {
              key: 'last',
              title: 'Last run',
              from: 'tablet',
              cell: ({ lastRunUnixMs }) => <When at={lastRunUnixMs} />,
            },
            { key: 'runs', title: 'Runs', isNumber: true, from: 'tablet', cell: ({ runs }) => formatCount(runs) },
            {
              key: 'missed',
              title: 'Missed',
              isNumber: true,
              from: 'desktop',
              cell: ({ missed }) => <span class={missed > 0 ? 'warn' : 'zero'}>{formatCount(missed)}</span>,
            },
            {
              key: 'skipped',
              title: 'Skipped',
              isNumber: true,
              from: 'desktop',
              cell: ({ skipped }) => <span class={skipped > 0 ? '' : 'zero'}>{formatCount(skipped)}</span>,
            },
          ]}
        />
      )}
      {open === undefined ? undefined : <Detail key={open.schedule} of={open} onClose={() => choose(undefined)} />}
    </>
  );
}

function ruleOf({ spec }: Schedule): VNode | string {
  if (spec === undefined) return '';
  if (spec.cron === '') return `every ${formatDuration(spec.intervalMs)}`;
  return (
    <>
      <code>
        <Text of={spec.cron} most={80} />
      </code>{' '}
      <span class="quiet">{spec.timeZone || 'UTC'}</span>
    </>
  );
}

const missedTexts: Readonly<Record<number, string>> = {
  [MissedRuns.MISSED_RUNS_SKIP]: 'are left out',
  [MissedRuns.MISSED_RUNS_ONCE]: 'the latest is caught up on',
  [MissedRuns.MISSED_RUNS_ALL]: 'all are caught up on',
};

function Detail({ of, onClose }: { readonly of: Schedule; readonly onClose: () => void }): VNode {
  const { schedule, spec, paused } = of;
  const { group } = parseQueueName(schedule);
  const shown = visible(schedule);
  const queue = visible(spec?.queue ?? '');
  const box = useRef<HTMLElement>(null);
  // The table may be long.
  useEffect(() => box.current?.scrollIntoView({ block: 'nearest' }), []);
  const next = of.nextRunsUnixMs[0];
  const now = serverNow();
  return (
    <section class="box" aria-label={shown} ref={box}>
      <div class="head title">
        <h2>
          <Name of={schedule} whole />
        </h2>
        <div class="actions">
          <Action
            label={paused ? 'Resume…' : 'Pause…'}
            right="enqueue"
            group={group}
            primary={paused}
            title={`${paused ? 'Resume' : 'Pause'} ${shown}`}
            confirm={paused ? 'Resume' : 'Pause'}
            run={async () => {
              await call('PauseSchedule', { schedule, paused: !paused });
              return `${paused ? 'Resumed' : 'Paused'} ${shown}`;
            }}
          >
            <p>
              {paused
                ? 'It goes on with the first run after now. Runs during the pause are left out.'
                : `It enqueues nothing until it is resumed${next === undefined ? '' : `: not ${formatTime(next, now)} either`}. Tasks that it has enqueued stay.`}
            </p>
          </Action>
          <Action
            label="Run now…"
            right="enqueue"
            group={group}
            title={`Run ${shown} now`}
            confirm="Enqueue a task"
            run={async () => {
              const { queue: at, pid } = await call('TriggerSchedule', { schedule });
              return `Enqueued ${visible(pidText(pid))} in ${visible(at)}`;
            }}
          >
            <p>One task is enqueued in {queue} now, beside those of its own runs.</p>
          </Action>
          <Action
            label="Delete…"
            right="enqueue"
            group={group}
            isDangerous
            title={`Delete ${shown}`}
            confirm="Delete the schedule"
            run={async () => {
              const { deleted } = await call('DeleteSchedule', { schedule });
              return deleted ? `Deleted ${shown}` : 'There was no such schedule any more';
            }}
          >
            <p>It enqueues nothing any more. Tasks that it has enqueued stay. This cannot be undone.</p>
          </Action>
          <button type="button" onClick={onClose}>
            Close
          </button>
        </div>
      </div>
      <Facts
        of={[
          ['When', ruleOf(of)],
          [
            'Queue',
            <a href={hashOf('queue', [spec?.queue ?? ''])} key="queue">
              <Name of={spec?.queue ?? ''} />
            </a>,
          ],
          ['Missed runs', missedTexts[spec?.missedRuns ?? 0]],
          ['While a run is in the queue', spec?.skipWhileRunning ? 'others are skipped' : undefined],
          ['Created', <When at={of.createdUnixMs} key="created" />],
          ['Changed', <When at={of.changedUnixMs} key="changed" />],
          ['Run by hand', of.triggered === 0 ? undefined : formatMany(of.triggered, 'time')],
          [
            'Last task',
            of.lastPid.length === 0 ? undefined : (
              <a href={hashOf('task', [spec?.queue ?? '', pidText(of.lastPid)])}>
                <Text of={pidText(of.lastPid)} most={120} />
              </a>
            ),
          ],
        ]}
      />
      <h3>Next runs</h3>
      {of.nextRunsUnixMs.length === 0 ? (
        <p class="quiet">{paused ? 'None while it is paused.' : 'None.'}</p>
      ) : (
        <ol class="runs">
          {of.nextRunsUnixMs.map((at) => (
            <li key={at}>
              {formatTime(at, now)}{' '}
              <span class="quiet">
                <When at={at} />
              </span>
            </li>
          ))}
        </ol>
      )}
      <h3>Payload</h3>
      <Payload of={spec?.data ?? new Uint8Array(0)} label="Payload" />
    </section>
  );
}
