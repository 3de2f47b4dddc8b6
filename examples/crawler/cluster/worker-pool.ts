import { type ChildProcess, fork } from 'node:child_process';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FromWorker, ToWorker, WorkerAssignment, WorkerCounts } from '../worker-messages.ts';
import { exited, killWithUs } from './child-processes.ts';

const program = new URL(`../worker-process${extname(fileURLToPath(import.meta.url))}`, import.meta.url);

/** How long a worker may take to stop, in ms. Then it is killed. */
const STOP_TIMEOUT_MS = 15_000;
/** A worker that dies more often is considered broken. */
const MAX_RESTARTS = 5;

/** The place of a worker: its present process, and the counts of the processes before it. */
interface Seat {
  readonly number: number;
  child: ChildProcess;
  name: string;
  starts: number;
  ready: boolean;
  counts: WorkerCounts;
  /** Counts of earlier processes in this place. */
  earlier: WorkerCounts;
}

/** The state of a worker. */
export interface WorkerStatus {
  readonly name: string;
  readonly pid: number | undefined;
  readonly ready: boolean;
  /** Counts of all processes in this place. */
  readonly counts: WorkerCounts;
}

export interface WorkerPoolOptions {
  readonly size: number;
  readonly assignment: (name: string, number: number) => WorkerAssignment;
  /** Called with errors that a crawl does not expect. */
  readonly onError: (name: string, message: string) => void;
  /** Called when a worker has died too often. */
  readonly onBroken: (error: Error) => void;
}

/** Worker processes. A process that dies is replaced, as an orchestrator would. */
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

  /** Counts of all workers, including dead ones. */
  get counts(): WorkerCounts {
    return this.workers.reduce((total, { counts }) => sum(total, counts), noCounts);
  }

  /** Kills the worker with SIGKILL. Resolves when the process has ended and another one starts in its place. */
  async kill(name: string): Promise<void> {
    const seat = this.#seats.find((one) => one.name === name);
    if (seat === undefined) throw new TypeError(`there is no worker ${name}`);
    const { child } = seat;
    const ended = exited(child);
    child.kill('SIGKILL');
    await ended;
  }

  /** Stops all workers. Each finishes its tasks first. */
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

  /** Kills all workers. Their tasks come back when the leases end. */
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
      // The last message of a killed worker may arrive after its replacement has started.
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
    // A new process is a new worker: it writes its own segment of the index.
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
