import { setTimeout as sleep } from 'node:timers/promises';
import { isTaskMasterError, type LeasedTask, pidText } from '@taskmaster/client';
import { LEASE, WATCH } from '@taskmaster/client/internal';
import type { Session } from '../session/session.ts';
import { duration } from '../views/format.ts';
import { errorLine, errorReport, isTemporary } from '../views/report-error.ts';
import { type CommandEnd, commandEndText, runCommand } from './run-command.ts';

export interface ExecSettings {
  readonly command: string;
  /** Delay of a failed task. Undefined: its retry policy decides. */
  readonly retryAfterMs: number | undefined;
  /** Leases one task. Undefined: no task is available. */
  readonly lease: () => Promise<LeasedTask<Uint8Array> | undefined>;
  readonly maxTasks: number;
  /** Goes on when no task is available or no node answers. */
  readonly endless: boolean;
}

/** Part of the lease duration after which the lease is renewed. Two more attempts fit before it ends. */
const RENEW_AT = 1 / 3;
/** Why a release is refused after the end of its lease. */
const ENDED: ReadonlySet<string> = new Set(['LEASE_EXPIRED', 'LEASE_LOST', 'TASK_NOT_FOUND']);
/** Pause of an endless loop when no node answers, in ms. */
const NODE_PAUSE_MS = 1_000;

/** Leases tasks one by one and runs a command for each, several at the same time. */
export class ExecLoop {
  readonly #session: Session;
  readonly #settings: ExecSettings;
  #begun = 0;
  #completed = 0;
  #failed = 0;

  constructor(session: Session, settings: ExecSettings) {
    this.#session = session;
    this.#settings = settings;
  }

  get counts(): { readonly completed: number; readonly failed: number } {
    return { completed: this.#completed, failed: this.#failed };
  }

  /** Ends when no task is left, or when the session's signal is aborted and all commands have ended. */
  async run(concurrency: number): Promise<void> {
    const lanes = Array.from({ length: concurrency }, () => this.#lane());
    const outcomes = await Promise.allSettled(lanes);
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }

  async #lane(): Promise<void> {
    const { signal } = this.#session;
    const { endless, maxTasks } = this.#settings;
    while (this.#begun < maxTasks && !signal.aborted) {
      this.#begun++;
      const task = await this.#next();
      if (task !== undefined) {
        await this.#workOn(task);
      } else {
        this.#begun--;
        if (!endless) return;
      }
    }
  }

  async #next(): Promise<LeasedTask<Uint8Array> | undefined> {
    const { signal, err } = this.#session;
    try {
      return await this.#settings.lease();
    } catch (error) {
      if (signal.aborted) return undefined;
      if (!this.#settings.endless || !isTaskMasterError(error) || !isTemporary(error)) throw error;
      err.line(errorLine(errorReport(error)));
      await sleep(NODE_PAUSE_MS, undefined, { signal }).catch(() => undefined);
      return undefined;
    }
  }

  async #workOn(task: LeasedTask<Uint8Array>): Promise<void> {
    const { signal, err, out } = this.#session;
    const start = performance.now();
    const end = await this.#runRenewing(task);
    const isDone = end.kind === 'exited' && end.code === 0;
    const { overTime } = isDone ? { overTime: undefined } : task[LEASE];
    let result: string;
    try {
      if (isDone) {
        await task.complete();
        result = 'completed';
        this.#completed++;
      } else {
        // Ctrl-C ended the command, so the attempt does not count.
        const isInterrupted = signal.aborted;
        const delay = isInterrupted ? 0 : this.#settings.retryAfterMs;
        const error = isInterrupted ? undefined : (overTime?.message ?? `the command ended: ${commandEndText(end)}`);
        const { deadLetterQueue } = await task.release({ delay, interrupted: isInterrupted, error });
        result = deadLetterQueue === undefined ? 'released' : `released to ${deadLetterQueue}`;
        // The node has removed it.
        if (task[LEASE].cancelled !== undefined) result = 'cancelled';
        else if (!isInterrupted) this.#failed++;
      }
    } catch (error) {
      if (!isTaskMasterError(error)) throw error;
      // At the time limit the lease ends, too, and then the node has noted the failure.
      const isNoted = overTime !== undefined && ENDED.has(error.reason);
      if (!isNoted) err.line(errorLine(errorReport(error)));
      result = isNoted ? 'expired' : 'lost';
      this.#failed++;
    }
    const elapsedMs = performance.now() - start;
    if (out.json) {
      const { queue, pid, attempt } = task;
      const timeLimitMs = overTime?.timeLimitMs;
      const ended = { result, timeLimitMs, ended: end, ms: Math.round(elapsedMs) };
      await out.object({ queue, pid: pidText(pid), attempt, ...ended });
    } else {
      const limit = overTime === undefined ? '' : `time limit of ${duration(overTime.timeLimitMs)}, `;
      const why = isDone ? '' : ` (${limit}${commandEndText(end)})`;
      const line = `${result}  ${task.queue}  ${pidText(task.pid)}  in ${duration(elapsedMs)}${why}`;
      err.line(line);
    }
  }

  async #runRenewing(task: LeasedTask<Uint8Array>): Promise<CommandEnd> {
    const { signal, out } = this.#session;
    const { command } = this.#settings;
    const lease = task[LEASE];
    const { leaseDurationMs } = lease;
    using _watch = task[WATCH]();
    const timer = setInterval(() => {
      if (lease.endsAt >= lease.limitAt) return;
      // A lost lease aborts the signal of the task. After any other error the next timer tries again.
      task.renew(undefined, { timeout: leaseDurationMs * RENEW_AT }).catch(() => undefined);
    }, leaseDurationMs * RENEW_AT);
    try {
      return await runCommand(command, task.bytes, {
        env: {
          TASKMASTER_QUEUE: task.queue,
          TASKMASTER_PRIORITY_ID: pidText(task.pid),
          TASKMASTER_KIND: task.kind ?? '',
          TASKMASTER_LEASE_TOKEN: String(task.leaseToken),
          TASKMASTER_ATTEMPT: String(task.attempt),
          TASKMASTER_HEADERS: JSON.stringify(task.headers),
        },
        // With --json only JSON objects go to standard output.
        stdout: out.json ? process.stderr : 'inherit',
        signal: AbortSignal.any([signal, task.signal]),
      });
    } finally {
      clearInterval(timer);
    }
  }
}
