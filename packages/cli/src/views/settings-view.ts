import type { QueueSettingsInfo } from '@taskmaster/client';
import { count } from './format.ts';
import type { Column } from './table.ts';

/** Settings for programs. Times are in ms. `maxAttempts` null: no limit. What is not set is left out. */
export const settingsObject = ({ queues, retry, deadLetterQueue, mode, ...times }: QueueSettingsInfo): object => ({
  queues,
  maxAttempts: retry && (Number.isFinite(retry.maxAttempts) ? retry.maxAttempts : null),
  backoffInitialMs: retry?.backoff.initial,
  backoffMaxMs: retry?.backoff.max,
  deadLetterQueue,
  leaseDurationMs: times.leaseDuration,
  mode,
  resultRetentionMs: times.resultRetention,
  keepOutMs: times.keepOut,
  timeLimitMs: times.timeLimit,
  maxBacklog: times.maxBacklog,
  maxKeyBacklog: times.maxKeyBacklog,
  whenFull: times.whenFull,
  fairTurns: times.fairTurns,
});

export const settingsColumns: readonly Column<QueueSettingsInfo>[] = [
  { title: 'QUEUES', cell: ({ queues }) => queues },
  { title: 'ATTEMPTS', align: 'right', cell: ({ retry }) => attemptsText(retry?.maxAttempts) },
  { title: 'BACKOFF', cell: ({ retry }) => (retry ? backoffText(retry.backoff) : '-') },
  { title: 'DEAD LETTERS', cell: ({ deadLetterQueue }) => deadLetterQueue ?? '-' },
  { title: 'LEASE', align: 'right', cell: ({ leaseDuration }) => (leaseDuration ? timeText(leaseDuration) : '-') },
  { title: 'TIME LIMIT', align: 'right', cell: ({ timeLimit }) => (timeLimit ? timeText(timeLimit) : '-') },
  { title: 'MODE', cell: ({ mode }) => mode ?? '-' },
  {
    title: 'RESULTS',
    align: 'right',
    cell: ({ resultRetention }) => (resultRetention ? timeText(resultRetention) : '-'),
  },
  { title: 'KEEP OUT', align: 'right', cell: ({ keepOut }) => (keepOut ? timeText(keepOut) : '-') },
  { title: 'BACKLOG', align: 'right', cell: ({ maxBacklog }) => (maxBacklog ? count(maxBacklog) : '-') },
  { title: 'KEY BACKLOG', align: 'right', cell: ({ maxKeyBacklog }) => (maxKeyBacklog ? count(maxKeyBacklog) : '-') },
  { title: 'WHEN FULL', cell: ({ whenFull }) => whenFull ?? '-' },
  { title: 'FAIR TURNS', cell: ({ fairTurns }) => (fairTurns ? weightsText(fairTurns.weights) : '-') },
];

const weightsText = (weights: Readonly<Record<string, number>>): string =>
  Object.entries(weights)
    .map(([key, weight]) => `${key}=${count(weight)}`)
    .join(' ') || 'equal';

function attemptsText(max: number | undefined): string {
  if (max === undefined) return '-';
  return Number.isFinite(max) ? count(max) : 'unlimited';
}

const backoffText = ({ initial, max }: { readonly initial: number; readonly max: number }): string =>
  initial === 0 ? 'none' : `${timeText(initial)},${timeText(max)}`;

const UNITS = [
  ['d', 24 * 3_600_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
] as const;

/** A duration as the options take it, exactly. */
function timeText(ms: number): string {
  const [name, length] = UNITS.find(([, unit]) => ms % unit === 0) ?? ['ms', 1];
  return `${ms / length}${name}`;
}
