import { type Pid, pidText, type QueueEvent, type TaskInfo } from '@taskmaster/client';
import { previewOf } from '../../views/bytes-text.ts';

/** `failed`: its attempt has failed, and it waits for the next one. `dead`: it is a dead letter. */
export type RowState = 'waiting' | 'running' | 'failed' | 'dead' | 'completed' | 'cancelled' | 'removed';

/** What the board knows of a task. */
export interface Row {
  /** Where it is now. */
  queue: string;
  pid: Pid;
  key: string | undefined;
  state: RowState;
  /** Number of its attempts. */
  attempt: number;
  /** When its state has changed, by the clock of the node, in ms since 1970. */
  at: number;
  /** When its attempt has begun. Undefined: unknown, or it does not run. */
  leasedAt: number | undefined;
  /** How long its last attempt took, in ms. Undefined: unknown, or it runs. */
  tookMs: number | undefined;
  /** The beginning of its data. Empty: unknown. */
  data: string;
  /** Its progress, the message of its error, or why it was cancelled. Empty: none. */
  text: string;
  /** The error of its last attempt with its stack. Undefined: unknown. */
  stack: string | undefined;
}

export interface Counts {
  enqueued: number;
  completed: number;
  failed: number;
  dead: number;
}

/** Tasks that a board knows at most. Above it those go first that have ended and changed longest ago. */
const MOST_ROWS = 500;
const DATA_WIDTH = 200;

const ends: ReadonlySet<RowState> = new Set(['completed', 'cancelled', 'removed']);

/** The tasks of a node as its events tell of them, in the order of their last changes. */
export class Board {
  /** What has happened since the board began. */
  readonly counts: Counts = { enqueued: 0, completed: 0, failed: 0, dead: 0 };
  readonly #rows = new Map<string, Row>();

  /** Rows by their last change, the latest first. */
  get rows(): Row[] {
    return [...this.#rows.values()].reverse();
  }

  /** Notes an event. Returns the row of its task. Undefined: it is not about one task. */
  apply(event: QueueEvent): Row | undefined {
    const { kind, pid, queue, at } = event;
    if (kind === 'queue-deleted') this.#deleted(queue, at?.getTime() ?? 0);
    if (pid === undefined) return undefined;
    const row = this.#take(queue, pid);
    row.key = event.key ?? row.key;
    row.attempt = Math.max(row.attempt, event.attempts);
    change(row, event);
    if (event.movedTo !== undefined) {
      Object.assign(row, event.movedTo);
      // A dead letter may come back with the same PID.
      if (kind === 'moved') row.attempt = 0;
    }
    if (kind === 'enqueued' || kind === 'completed' || kind === 'failed') this.counts[kind]++;
    if (kind === 'dead-lettered') this.counts.dead++;
    this.#put(row);
    return row;
  }

  /** Adds a task that was there before the events. One that is known stays as it is. */
  add(task: TaskInfo<Uint8Array>): void {
    if (this.#rows.has(keyOf(task.queue, task.pid))) return;
    const { queue, pid, key, attempts: attempt, failures, leasedAt, enqueuedAt, progress } = task;
    const failure = failures.at(-1);
    const state =
      task.deadLetterFrom !== undefined
        ? 'dead'
        : task.state === 'leased'
          ? 'running'
          : failure === undefined
            ? 'waiting'
            : 'failed';
    const at = (state === 'running' ? leasedAt : (failure?.failedAt ?? enqueuedAt))?.getTime() ?? 0;
    const began = state === 'running' ? leasedAt?.getTime() : undefined;
    const text = state === 'running' ? (progress?.text ?? '') : (failure?.error?.message ?? '');
    const data = previewOf(task.bytes ?? new Uint8Array(), DATA_WIDTH);
    const row = { queue, pid, key, state, attempt, at, leasedAt: began, tookMs: undefined, data, text } as const;
    this.#put({ ...row, stack: stackOf(task) });
  }

  /** Adds what an event does not tell of a task that has failed. */
  explain(row: Row, task: TaskInfo<Uint8Array>): void {
    if (task.bytes === undefined) return;
    row.data ||= previewOf(task.bytes, DATA_WIDTH);
    row.stack = stackOf(task);
  }

  #deleted(queue: string, at: number): void {
    for (const row of this.#rows.values()) {
      if (row.queue === queue && !ends.has(row.state)) Object.assign(row, { state: 'removed', at });
    }
  }

  /** The row of a task, which is none of the board until it is put back. */
  #take(queue: string, pid: Pid): Row {
    const key = keyOf(queue, pid);
    const known = this.#rows.get(key);
    this.#rows.delete(key);
    // A task that has ended may be followed by another one with its PID.
    if (known !== undefined && !ends.has(known.state)) return known;
    const unknown = { key: undefined, leasedAt: undefined, tookMs: undefined, stack: undefined, data: '', text: '' };
    return { queue, pid, state: 'waiting', attempt: 0, at: 0, ...unknown };
  }

  #put(row: Row): void {
    const key = keyOf(row.queue, row.pid);
    // Behind all others, also if it takes the place of another one.
    this.#rows.delete(key);
    this.#rows.set(key, row);
    if (this.#rows.size <= MOST_ROWS) return;
    const [oldest] = this.#rows.keys();
    for (const [other, { state }] of this.#rows) {
      if (!ends.has(state)) continue;
      this.#rows.delete(other);
      return;
    }
    if (oldest !== undefined) this.#rows.delete(oldest);
  }
}

const keyOf = (queue: string, pid: Pid): string => `${queue} ${pidText(pid)}`;

/** Frames of the client and of Node.js, between which those of the application are. */
const OTHERS_FRAME = /^\s+at .*(?:[\\/](?:@taskmaster|packages)[\\/]client[\\/]|\(?node:)/;

/** The error of the last attempt of a task, with its stack in the application. Undefined: no attempt has failed. */
function stackOf({ failures }: TaskInfo<Uint8Array>): string | undefined {
  const failure = failures.at(-1);
  if (failure === undefined) return undefined;
  if (failure.error === undefined) return 'the lease expired';
  const { details, message } = failure.error;
  const own = details.split('\n').filter((line) => !OTHERS_FRAME.test(line));
  return details === '' ? message : own.join('\n');
}

const stateAfter: Partial<Readonly<Record<QueueEvent['kind'], RowState>>> = {
  enqueued: 'waiting',
  leased: 'running',
  failed: 'failed',
  released: 'waiting',
  completed: 'completed',
  'dead-lettered': 'dead',
  cancelled: 'cancelled',
  removed: 'removed',
  moved: 'waiting',
};

function change(row: Row, { kind, at, text = '' }: QueueEvent): void {
  const now = at?.getTime() ?? row.at;
  row.at = now;
  // The next attempt of a failed task was put forward, or its data has changed.
  const state = stateAfter[kind] ?? (kind === 'changed' && row.state === 'failed' ? 'waiting' : row.state);
  if (kind === 'leased') {
    row.leasedAt = now;
    row.tookMs = undefined;
  } else if (row.state === 'running' && state !== 'running') {
    row.tookMs = row.leasedAt === undefined ? undefined : now - row.leasedAt;
    row.leasedAt = undefined;
  }
  if (kind === 'enqueued') row.data = previewOf(Buffer.from(text), DATA_WIDTH);
  else if (text !== '') row.text = text;
  else if (kind === 'completed') row.text = '';
  row.state = state;
}
