import {
  type LeasedTask,
  pidBytes,
  pidText,
  type TaskFailure,
  type TaskHeaders,
  type TaskSummary,
} from '@taskmaster/client';
import { isByKey } from '@taskmaster/client/internal';
import { previewOf, textOf } from './bytes-text.ts';
import { count, countOf, duration } from './format.ts';
import type { Output } from './output.ts';
import type { Column } from './table.ts';

/** A leased task for programs; `complete`, `renew` and `release` read this line with `--task`. */
export interface LeasedObject {
  readonly queue: string;
  readonly pid: string;
  readonly key?: string | undefined;
  readonly kind?: string | undefined;
  readonly limitKey?: string | undefined;
  readonly orderKey?: string | undefined;
  readonly leaseToken: number;
  readonly attempt: number;
  readonly unbegun?: number | undefined;
  readonly enqueuedAt: string;
  readonly leaseUntil: string;
  readonly timeLimitMs?: number | undefined;
  readonly checkpoint?: string | undefined;
  readonly headers?: TaskHeaders | undefined;
  readonly data: string;
}

export function leasedObject(task: LeasedTask<Uint8Array>): LeasedObject {
  return {
    queue: task.queue,
    pid: pidText(task.pid),
    key: task.key,
    kind: task.kind,
    limitKey: task.limitKey,
    orderKey: task.orderKey,
    leaseToken: task.leaseToken,
    attempt: task.attempt,
    unbegun: task.unbegun,
    enqueuedAt: task.enqueuedAt.toISOString(),
    leaseUntil: task.leaseUntil.toISOString(),
    timeLimitMs: task.timeLimitMs,
    checkpoint: task.previousCheckpoint && textOf(task.previousCheckpoint),
    headers: orNone(task.headers),
    data: textOf(task.bytes),
  };
}

/** Headers, as programs see them: left out if there are none. */
function orNone(headers: TaskHeaders | undefined): TaskHeaders | undefined {
  return headers === undefined || Object.keys(headers).length === 0 ? undefined : headers;
}

const headersText = (headers: TaskHeaders = {}): string =>
  Object.entries(headers)
    .map(([key, value]) => `${key}=${value}`)
    .join(' ');

/** A column for headers, if any task has some. */
function headerColumns<T extends { readonly headers?: TaskHeaders }>(tasks: readonly T[], out: Output): Column<T>[] {
  if (tasks.every(({ headers }) => orNone(headers) === undefined)) return [];
  return [{ title: 'HEADERS', cell: ({ headers }) => previewOf(Buffer.from(headersText(headers)), previewWidth(out)) }];
}

/** A column for time limits, if any task has one. */
const limitColumns = <T extends Pick<TaskSummary, 'timeLimitMs'>>(tasks: readonly T[]): Column<T>[] =>
  tasks.every(({ timeLimitMs }) => timeLimitMs === undefined)
    ? []
    : [
        {
          title: 'TIME LIMIT',
          align: 'right',
          cell: ({ timeLimitMs }) => (timeLimitMs === undefined ? '' : duration(timeLimitMs)),
        },
      ];

/** A column for kinds, if any task has one. */
const kindColumns = <T extends Pick<TaskSummary, 'kind'>>(tasks: readonly T[]): Column<T>[] =>
  tasks.every(({ kind }) => kind === undefined) ? [] : [{ title: 'KIND', cell: ({ kind }) => kind ?? '' }];

export function leasedColumns(
  tasks: readonly LeasedTask<Uint8Array>[],
  out: Output,
  now: number,
): readonly Column<LeasedTask<Uint8Array>>[] {
  return [
    { title: 'QUEUE', cell: (task) => task.queue },
    { title: 'PID', cell: (task) => pidText(task.pid) },
    ...kindColumns(tasks),
    { title: 'TOKEN', align: 'right', cell: (task) => String(task.leaseToken) },
    { title: 'ATTEMPT', align: 'right', cell: (task) => count(task.attempt) },
    { title: 'AGE', align: 'right', cell: (task) => duration(now - task.enqueuedAt.getTime()) },
    { title: 'LEASED FOR', align: 'right', cell: (task) => duration(task.leaseUntil.getTime() - now) },
    ...unbegunColumns(tasks),
    ...limitColumns(tasks),
    ...headerColumns(tasks, out),
    { title: 'DATA', cell: (task) => previewOf(task.bytes, previewWidth(out)) },
  ];
}

/** A column for tasks that do not count as begun, if there are any. */
function unbegunColumns(tasks: readonly LeasedTask<Uint8Array>[]): Column<LeasedTask<Uint8Array>>[] {
  if (tasks.every(({ unbegun }) => unbegun === undefined)) return [];
  const cell = ({ unbegun }: LeasedTask<Uint8Array>): string =>
    unbegun === undefined ? 'yes' : unbegun === 0 ? 'no' : `no, with at most ${unbegun}`;
  return [{ title: 'BEGUN', cell }];
}

/** A task of `peek` or `get`. */
export interface SeenTask extends TaskSummary {
  /** The headers, if the payload was requested. */
  readonly headers?: TaskHeaders;
  /** The payload, if it was requested. */
  readonly bytes?: Uint8Array | undefined;
}

/** A task of `peek` or `get` for programs. Fields that are unknown or not requested are left out. */
export function taskObject(task: SeenTask): object {
  const { retry } = task;
  return {
    queue: task.queue,
    pid: task.pid.byteLength === 0 ? undefined : pidText(task.pid),
    key: task.key,
    state: task.state,
    ...(task.state === 'not-found' ? {} : { attempts: task.attempts }),
    enqueuedAt: task.enqueuedAt?.toISOString(),
    hiddenUntil: task.hiddenUntil?.toISOString(),
    leaseToken: task.leaseToken === 0 ? undefined : task.leaseToken,
    leasedAt: task.leasedAt?.toISOString(),
    begun: task.state === 'leased' ? task.begun : undefined,
    workerLabel: task.workerLabel,
    workerAddress: task.workerAddress,
    retry:
      retry === undefined
        ? undefined
        : {
            maxAttempts: retry.maxAttempts === 0 ? undefined : retry.maxAttempts,
            backoffInitialMs: retry.backoffInitialMs === 0 ? undefined : retry.backoffInitialMs,
            backoffMaxMs: retry.backoffMaxMs === 0 ? undefined : retry.backoffMaxMs,
            deadLetterQueue: retry.deadLetterQueue === '' ? undefined : retry.deadLetterQueue,
          },
    timeLimitMs: task.timeLimitMs,
    limitKey: task.limitKey,
    kind: task.kind,
    startBy: task.startBy?.toISOString(),
    waits: task.waits,
    parents: task.parents.length === 0 ? undefined : task.parents.map(parentObject),
    orderKey: task.orderKey,
    deadLetterFrom: task.deadLetterFrom,
    progress: task.progress && { at: task.progress.at.toISOString(), text: task.progress.text },
    checkpointBytes: task.checkpointBytes,
    interruptions: task.interruptions === 0 ? undefined : task.interruptions,
    cancelled: task.cancelled && { at: task.cancelled.at.toISOString(), reason: task.cancelled.reason },
    failures: task.failures.length === 0 ? undefined : task.failures.map(failureObject),
    headers: orNone(task.headers),
    data: task.bytes === undefined ? undefined : textOf(task.bytes),
  };
}

const failureObject = ({ failedAt, attempt, workerLabel, error }: TaskFailure): object => ({
  failedAt: failedAt.toISOString(),
  attempt,
  workerLabel,
  error: error ?? 'lease expired',
});

/** The message of the latest failure of a task. */
function latestError({ failures }: TaskSummary): string {
  const latest = failures.at(-1);
  return latest === undefined ? '' : (latest.error?.message ?? 'lease expired');
}

/** The messages of the latest failure of a task and of its causes. Frames of stacks are left out. */
export function messagesOfLatestError(task: TaskSummary): readonly string[] {
  const details = task.failures.at(-1)?.error?.details ?? '';
  return [latestError(task), ...details.split('\n').filter((line) => !/^\s+at /.test(line))];
}

/** Columns for tasks of dead-letter queues. */
export function deadColumns(out: Output, now: number): readonly Column<TaskSummary>[] {
  return [
    { title: 'QUEUE', cell: (task) => task.queue },
    { title: 'PID', cell: (task) => pidText(task.pid) },
    { title: 'FROM', cell: ({ deadLetterFrom }) => deadLetterFrom ?? '' },
    { title: 'ATTEMPTS', align: 'right', cell: ({ attempts }) => count(attempts) },
    { title: 'FAILED', align: 'right', cell: ({ failures }) => since(failures.at(-1)?.failedAt, now) },
    errorColumn(out),
  ];
}

const errorColumn = (out: Output): Column<TaskSummary> => ({
  title: 'ERROR',
  cell: (task) => previewOf(Buffer.from(latestError(task)), previewWidth(out)),
});

type TaskColumn = Column<SeenTask>;

/** Columns for tasks of one state, or of any. Their errors have a column if there are any. */
export function taskColumns(
  kind: TaskSummary['state'] | 'waiting' | 'any',
  tasks: readonly SeenTask[],
  out: Output,
  withData: boolean,
  now: number,
): readonly TaskColumn[] {
  const columns: TaskColumn[] = [{ title: 'PID', cell: (task) => pidText(task.pid) }];
  if (tasks.some(({ key }) => key !== undefined)) {
    columns.push({ title: 'KEY', cell: ({ key = '' }) => previewOf(Buffer.from(key), previewWidth(out)) });
  }
  columns.push(...kindColumns(tasks));
  if (kind === 'any') columns.push({ title: 'STATE', cell: ({ state }) => state });
  columns.push(
    { title: 'AGE', align: 'right', cell: ({ enqueuedAt }) => since(enqueuedAt, now) },
    {
      title: 'ATTEMPTS',
      align: 'right',
      cell: ({ state, attempts }) => (state === 'not-found' ? '' : count(attempts)),
    },
  );
  if (kind === 'leased' || kind === 'any') {
    columns.push(
      { title: 'LEASED', align: 'right', cell: ({ leasedAt }) => since(leasedAt, now) },
      { title: 'TOKEN', align: 'right', cell: ({ leaseToken }) => (leaseToken === 0 ? '' : String(leaseToken)) },
      { title: 'WORKER', cell: ({ workerLabel, workerAddress }) => workerOf(workerLabel, workerAddress) },
      { title: 'PROGRESS', cell: ({ progress }) => previewOf(Buffer.from(progress?.text ?? ''), previewWidth(out)) },
    );
  }
  if (tasks.some(({ checkpointBytes }) => checkpointBytes !== undefined)) {
    const cell = ({ checkpointBytes }: SeenTask): string =>
      checkpointBytes === undefined ? '' : count(checkpointBytes);
    columns.push({ title: 'CHECKPOINT BYTES', align: 'right', cell });
  }
  if (tasks.some(({ interruptions }) => interruptions > 0)) {
    columns.push({ title: 'INTERRUPTIONS', align: 'right', cell: ({ interruptions }) => count(interruptions) });
  }
  if (kind !== 'available') {
    const title = kind === 'leased' ? 'ENDS IN' : kind === 'delayed' ? 'AVAILABLE IN' : 'HIDDEN FOR';
    columns.push({ title, align: 'right', cell: ({ hiddenUntil }) => until(hiddenUntil, now) });
  }
  columns.push(...limitColumns(tasks));
  if (tasks.some(({ startBy }) => startBy !== undefined)) {
    columns.push({ title: 'START WITHIN', align: 'right', cell: ({ startBy }) => until(startBy, now) });
  }
  if (tasks.some(({ waits }) => waits !== undefined)) {
    columns.push({ title: 'WAITS FOR', cell: ({ waits }) => waitsText(waits) });
  }
  if (tasks.some(({ orderKey }) => orderKey !== undefined)) {
    columns.push({
      title: 'ORDER KEY',
      cell: ({ orderKey = '' }) => previewOf(Buffer.from(orderKey), previewWidth(out)),
    });
  }
  if (tasks.some(({ parents }) => parents.length > 0)) {
    columns.push({ title: 'PARENTS', cell: ({ parents }) => parents.map(parentText).join(', ') });
  }
  if (tasks.some(({ cancelled }) => cancelled !== undefined)) {
    columns.push({ title: 'CANCELLED', cell: ({ cancelled }) => cancelledCell(cancelled, out) });
  }
  if (tasks.some(({ failures }) => failures.length > 0)) columns.push(errorColumn(out));
  if (withData) {
    columns.push(...headerColumns(tasks, out), {
      title: 'DATA',
      cell: ({ bytes }) => (bytes === undefined ? '' : previewOf(bytes, previewWidth(out))),
    });
  }
  return columns;
}

/** What a task waits for, beside its time. */
export function waitsText(waits: TaskSummary['waits']): string {
  if (waits === undefined) return '';
  const { signals, order } = waits;
  const ofSignals = signals === 0 ? [] : [countOf(signals, 'signal')];
  return [...(order ? ['its order'] : []), ...ofSignals].join(', ');
}

type Parent = TaskSummary['parents'][number];

function parentObject({ queue, task, onFailure }: Parent): object {
  return { queue, ...(isByKey(task) ? { key: task.key } : { pid: pidText(pidBytes(task)) }), onFailure };
}

const parentText = ({ queue, task }: Parent): string =>
  `${queue} ${isByKey(task) ? `key ${task.key}` : pidText(pidBytes(task))}`;

const PREVIEW_WIDTH = 60;
/** Width of the table without a terminal, in columns. */
const WIDE = 160;

/** Width of payloads with which a table fits into the terminal. */
function previewWidth({ stream }: Output): number {
  return Math.max(20, Math.min(PREVIEW_WIDTH, Math.floor((stream.columns || WIDE) / 2.5)));
}

function workerOf(label: string | undefined, address: string | undefined): string {
  if (label === undefined) return address ?? '';
  return address === undefined ? label : `${label} (${address})`;
}

const cancelledCell = (cancelled: TaskSummary['cancelled'], out: Output): string =>
  cancelled === undefined ? '' : previewOf(Buffer.from(cancelled.reason), previewWidth(out));

function since(instant: Date | undefined, now: number): string {
  return instant === undefined ? '' : duration(now - instant.getTime());
}

function until(instant: Date | undefined, now: number): string {
  return instant === undefined ? '' : duration(instant.getTime() - now);
}
