import { type ChildProcess, fork } from 'node:child_process';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FromWorker, ToWorker, WorkerAssignment, WorkerCounts } from '../worker-messages.ts';
import { exited, killWithUs } from './child-processes.ts';

const program = new URL(`../worker-process${extname(fileURLToPath(import.meta.url))}`, import.meta.url);

/** Longest time for what a worker is doing when it is told to stop, in ms. */
const STOP_TIMEOUT_MS = 15_000;
/** A worker that dies so often is broken, not unlucky. */
const MAX_RESTARTS = 5;

/** A worker process, or the latest of those that took its place. */
interface Seat {
  readonly number: number;
  child: ChildProcess;
  name: string;
  starts: number;
  ready: boolean;
  counts: WorkerCounts;
  /** Of the processes that had this place before. */
  earlier: WorkerCounts;
}

/** How one worker is doing. */
export interface WorkerStatus {
  readonly name: string;
  readonly pid: number | undefined;
  readonly ready: boolean;
  /** Of this and all earlier processes in its place. */
  readonly counts: WorkerCounts;
}

export interface WorkerPoolOptions {
  readonly size: number;
  readonly assignment: (name: string, number: number) => WorkerAssignment;
  /** A worker had an error that is nobody's usual bad luck. */
  readonly onError: (name: string, message: string) => void;
  /** A worker has died too often. */
  readonly onBroken: (error: Error) => void;
}

/** Worker processes; one that dies is replaced, as an orchestrator would. */
export class WorkerPool implements AsyncDisposable {
  readonly #options: WorkerPoolOptions;
  readonly #seats: Seat[] = [];
  #stopping = false;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
  }

  start(): void {
    for (let number = 1; number <= this.#options.size; number++) {
      const name = `worker-${number}`;
      const child = this.#fork(name, number);
      const seat: Seat = { number, child, name, starts: 1, ready: false, counts: noCounts, earlier: noCounts };
      this.#seats.push(seat);
      this.#watch(seat);
    }
  }

  get workers(): readonly WorkerStatus[] {
    return this.#seats.map(({ name, child, ready, counts, earlier }) => {
      return { name, pid: child.pid, ready, counts: sum(counts, earlier) };
    });
  }

  /** Of all workers, the dead ones included. */
  get counts(): WorkerCounts {
    return this.workers.reduce((total, { counts }) => sum(total, counts), noCounts);
  }

  /** As `kill -9` does. Resolves when it is gone; its successor is starting then. */
  async kill(name: string): Promise<void> {
    const seat = this.#seats.find((one) => one.name === name);
    if (seat === undefined) throw new TypeError(`there is no worker ${name}`);
    const { child } = seat;
    const ended = exited(child);
    child.kill('SIGKILL');
    await ended;
  }

  /** Lets every worker finish what it is doing. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(
      this.#seats.map(async ({ child }) => {
        if (child.connected) child.send({ kind: 'stop' } satisfies ToWorker);
        const impatience = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
        await exited(child);
        clearTimeout(impatience);
      }),
    );
  }

  /** At once: what the workers were doing comes back when their leases end. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping = true;
    for (const { child } of this.#seats) child.kill('SIGKILL');
    await Promise.all(this.#seats.map(({ child }) => exited(child)));
  }

  #fork(name: string, number: number): ChildProcess {
    return fork(program, [JSON.stringify(this.#options.assignment(name, number))], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
  }

  #watch(seat: Seat): void {
    const { child, name } = seat;
    killWithUs(child);
    child.on('message', (message: FromWorker) => {
      // A killed worker's last words may come after its successor has taken the seat.
      if (seat.child !== child) return;
      if (message.kind === 'ready') seat.ready = true;
      else if (message.kind === 'counts') seat.counts = message.counts;
      else this.#options.onError(name, message.message);
    });
    child.once('exit', () => {
      seat.ready = false;
      if (!this.#stopping) this.#replace(seat);
    });
  }

  #replace(seat: Seat): void {
    if (seat.starts > MAX_RESTARTS) {
      this.#options.onBroken(new Error(`${seat.name} has died ${seat.starts} times`));
      return;
    }
    seat.starts++;
    seat.earlier = sum(seat.earlier, seat.counts);
    seat.counts = noCounts;
    // A new name: it is a new worker, with a segment of the index of its own.
    seat.name = `worker-${seat.number}.${seat.starts}`;
    seat.child = this.#fork(seat.name, seat.number);
    this.#watch(seat);
  }
}

const noCounts: WorkerCounts = {
  handled: { fetch: 0, extract: 0, index: 0 },
  failed: 0,
  retried: 0,
  leasesLost: 0,
  callsRepeated: 0,
};

function sum(a: WorkerCounts, b: WorkerCounts): WorkerCounts {
  return {
    handled: {
      fetch: a.handled.fetch + b.handled.fetch,
      extract: a.handled.extract + b.handled.extract,
      index: a.handled.index + b.handled.index,
    },
    failed: a.failed + b.failed,
    retried: a.retried + b.retried,
    leasesLost: a.leasesLost + b.leasesLost,
    callsRepeated: a.callsRepeated + b.callsRepeated,
  };
}
