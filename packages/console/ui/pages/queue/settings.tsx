import {
  EnqueueMode,
  type ListQueueSettingsResponse,
  type QueueLimit,
  type QueueSettings,
  WhenFull,
} from '@taskmaster/proto/messages';
import type { ComponentChildren, VNode } from 'preact';
import { Facts } from '../../parts/bits.tsx';
import { Table } from '../../parts/table.tsx';
import { Name, Text, When } from '../../parts/text.tsx';
import { formatCount, formatDuration, formatMany } from '../../show/format.ts';
import { hashOf } from '../../show/place.ts';

/** As in `COLLAPSE`, in small letters. */
const wordOf = (names: Readonly<Record<string, number>>, value: number, prefix: string): string | undefined => {
  const name = Object.entries(names).find(([, one]) => one === value)?.[0];
  return value === 0 ? undefined : name?.slice(prefix.length).toLowerCase().replaceAll('_', ' ');
};

const time = (ms: number): string | undefined => (ms === 0 ? undefined : formatDuration(ms));
const count = (value: number): string | undefined => (value === 0 ? undefined : formatCount(value));

function factsOf(settings: QueueSettings): (readonly [string, ComponentChildren])[] {
  const { retry } = settings;
  const weights = Object.entries(settings.fairTurns?.weights ?? {});
  return [
    ['Attempts', retry && (retry.maxAttempts === 0 ? 'no limit' : formatCount(retry.maxAttempts))],
    [
      'Backoff',
      retry &&
        `up to ${formatDuration(retry.backoffInitialMs)}, doubles to ${formatDuration(retry.backoffMaxMs || 3_600_000)}`,
    ],
    [
      'Dead letters go to',
      settings.deadLetterQueue === '' ? undefined : (
        <a href={hashOf('queue', [settings.deadLetterQueue])}>
          <Name of={settings.deadLetterQueue} />
        </a>
      ),
    ],
    ['Leases last', time(settings.leaseDurationMs)],
    ['An attempt may take', time(settings.timeLimitMs)],
    ['An enqueue of a PID that is there', wordOf(EnqueueMode, settings.mode, 'ENQUEUE_MODE_')],
    ['Results are kept for', time(settings.resultRetentionMs)],
    ['Completed PIDs are kept out for', time(settings.keepOutMs)],
    ['Tasks that may wait', count(settings.maxBacklog)],
    ['Tasks of a key that may wait', count(settings.maxKeyBacklog)],
    ['When it is full', wordOf(WhenFull, settings.whenFull, 'WHEN_FULL_')],
    [
      'Fair turns',
      settings.fairTurns &&
        (weights.length === 0 ? 'of limit keys' : weights.map(([key, weight]) => `${key} × ${weight}`).join(', ')),
    ],
  ];
}

export function QueueSettingsView({
  of,
  queue,
}: {
  readonly of: ListQueueSettingsResponse;
  readonly queue: string;
}): VNode {
  const { effective, settings, pauses, limits } = of;
  return (
    <>
      <h3>What applies</h3>
      {effective === undefined ? undefined : <Facts of={factsOf(effective)} />}
      <h3>Where it comes from</h3>
      {settings.length === 0 ? (
        <p class="quiet">
          Only the defaults of TaskMaster. Settings are made with the command line: <code>taskmaster settings</code>.
        </p>
      ) : (
        settings.map((one) => (
          <div class="box" key={one.queues}>
            <strong>
              <Text of={one.queues === queue ? 'This queue' : one.queues} most={200} />
            </strong>
            <Facts of={factsOf(one)} />
          </div>
        ))
      )}
      <h3>Pauses</h3>
      {pauses.length === 0 ? (
        <p class="quiet">None.</p>
      ) : (
        <Table
          label="Pauses"
          rows={pauses}
          keyOf={(pause) => pause.queues}
          columns={[
            { key: 'queues', title: 'Queues', cell: (pause) => <Text of={pause.queues} most={120} /> },
            { key: 'reason', title: 'Why', from: 'tablet', cell: (pause) => <Text of={pause.reason} most={256} /> },
            { key: 'by', title: 'By', from: 'tablet', cell: (pause) => <Text of={pause.pausedBy} most={80} /> },
            { key: 'since', title: 'Since', cell: (pause) => <When at={pause.sinceUnixMs} /> },
            { key: 'until', title: 'Ends', cell: (pause) => <When at={pause.untilUnixMs} /> },
          ]}
        />
      )}
      <h3>Limits</h3>
      {limits.length === 0 ? (
        <p class="quiet">None.</p>
      ) : (
        <Table
          label="Limits"
          rows={limits}
          keyOf={(limit) => `${limit.queues} ${limit.keys}`}
          columns={[
            { key: 'queues', title: 'Queues', cell: (limit) => <Text of={limit.queues} most={120} /> },
            {
              key: 'keys',
              title: 'Each key',
              from: 'tablet',
              cell: (limit) => (limit.keys === '' ? <span class="quiet">–</span> : <Text of={limit.keys} most={80} />),
            },
            { key: 'limit', title: 'Limit', cell: limitText },
            { key: 'leased', title: 'Leased', isNumber: true, cell: (limit) => formatCount(limit.leased) },
            { key: 'used', title: 'Used up', from: 'tablet', cell: (limit) => <When at={limit.usedUpSinceUnixMs} /> },
            { key: 'by', title: 'By', from: 'desktop', cell: (limit) => <Text of={limit.limitedBy} most={80} /> },
          ]}
        />
      )}
    </>
  );
}

function limitText({ maxLeased, rate }: QueueLimit): string {
  const leased = maxLeased === 0 ? [] : [`${formatCount(maxLeased)} leased`];
  const rated = rate === undefined ? [] : [`${formatMany(rate.tasks, 'task')} in ${formatDuration(rate.perMs)}`];
  return [...leased, ...rated].join(', ');
}
