import type { LeasedTask } from '@taskmaster/proto';
import type { Connections } from './connections.ts';
import type { Job, JobResults } from './jobs.ts';
import { dequeueOf, leaseTasks, newTasks, updateTasks } from './stub-calls.ts';

type JobOf<Kind extends Job['kind']> = Extract<Job, { readonly kind: Kind }>;

const POLL_MS = 10 * 60_000;
/** The server has heard of the polls once it has answered what came behind them on the same connections. */
const ROUND_TRIPS = 3;
/** How long other polls may take to get a task that they must not get, in ms. */
const SECOND_WAKE_MS = 100;

/** Long polls of this process that wait for tasks. */
export class Polls {
  readonly #connections: Connections;
  #open = 0;
  #woken = 0;
  #onTask: ((task: LeasedTask, at: number) => void) | undefined;

  constructor(connections: Connections) {
    this.#connections = connections;
  }

  async open(job: JobOf<'open-polls'>): Promise<JobResults['open-polls']> {
    const { endpoint, queue, count, connections, via } = job;
    for (let i = 0; i < count; i++) {
      const purpose = `poll ${i % connections}`;
      if (via === 'unary') {
        this.#wait(leaseTasks(this.#connections.stub(endpoint, purpose), queue, 1, POLL_MS).then(([task]) => task));
      } else {
        this.#wait(this.#clientPoll(endpoint, purpose, queue));
      }
    }
    for (let i = 0; i < ROUND_TRIPS * connections; i++) {
      const purpose = `poll ${i % connections}`;
      if (via === 'unary') await leaseTasks(this.#connections.stub(endpoint, purpose), `${queue}-empty`, 1);
      else await (await this.#connections.client(endpoint, purpose)).queue(`${queue}-empty`).lease();
    }
    return { open: this.#open };
  }

  /** Hands one task to one of the polls. */
  async wake({ endpoint, queue }: JobOf<'wake-poll'>): Promise<JobResults['wake-poll']> {
    const served = Promise.withResolvers<{ readonly task: LeasedTask; readonly at: number }>();
    this.#woken = 0;
    this.#onTask = (task, at) => served.resolve({ task, at });
    const stub = this.#connections.stub(endpoint, 'producer');
    const began = performance.now();
    await updateTasks(stub, { enqueue: newTasks(queue, 1) });
    const { task, at } = await served.promise;
    await new Promise((resolve) => setTimeout(resolve, SECOND_WAKE_MS));
    await updateTasks(stub, { dequeue: [dequeueOf(task)] });
    return { ms: at - began, woken: this.#woken };
  }

  /** The poll as the typed client sends it, on the stream, but with the reply as it comes. */
  async #clientPoll(endpoint: string, purpose: string, queue: string): Promise<LeasedTask | undefined> {
    const client = await this.#connections.client(endpoint, purpose);
    const [task] = await client.queue(queue).lease({ wait: POLL_MS });
    if (task === undefined) return undefined;
    return {
      queue,
      pid: task.pid,
      data: task.bytes,
      leaseToken: task.leaseToken,
      leaseUntilUnixMs: task.leaseUntil.getTime(),
      attempt: task.attempt,
      enqueuedUnixMs: task.enqueuedAt.getTime(),
    };
  }

  #wait(reply: Promise<LeasedTask | undefined>): void {
    this.#open++;
    reply.then(
      (task) => {
        this.#open--;
        if (task === undefined) return;
        this.#woken++;
        this.#onTask?.(task, performance.now());
      },
      // The server is gone at the end of the row; before, the missing answer shows.
      () => {
        this.#open--;
      },
    );
  }
}
