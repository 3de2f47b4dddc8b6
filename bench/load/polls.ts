import type { TaskMasterClient } from '@taskmaster/client';
import type { Dequeue, TaskMasterServiceClient } from '@taskmaster/proto';
import type { Connections } from './connections.ts';
import type { Job, JobResults } from './jobs.ts';
import { dequeueOf, leaseTasks, newTasks, updateTasks } from './stub-calls.ts';

type JobOf<Kind extends Job['kind']> = Extract<Job, { readonly kind: Kind }>;

const POLL_MS = 10 * 60_000;
/** The server has heard of the polls once it has answered what came behind them on the same connections. */
const ROUND_TRIPS = 3;
/** How long other polls may take to get a task that they must not get, in ms. */
const SECOND_WAKE_MS = 50;

/** Long polls of this process that wait for tasks. */
export class Polls {
  readonly #connections: Connections;
  #open = 0;
  #woken = 0;
  #onTask: ((task: Dequeue, at: number) => void) | undefined;

  constructor(connections: Connections) {
    this.#connections = connections;
  }

  async open(job: JobOf<'open-polls'>): Promise<JobResults['open-polls']> {
    const { endpoint, queue, count, connections, via } = job;
    for (let i = 0; i < count; i++) {
      const purpose = `poll ${i % connections}`;
      if (via === 'unary') {
        this.#wait(stubPoll(await this.#connections.stub(endpoint, purpose), queue));
      } else {
        this.#wait(clientPoll(await this.#connections.client(endpoint, purpose), queue));
      }
    }
    for (let i = 0; i < ROUND_TRIPS * connections; i++) {
      const purpose = `poll ${i % connections}`;
      if (via === 'unary') await leaseTasks(await this.#connections.stub(endpoint, purpose), `${queue}-empty`, 1);
      else await (await this.#connections.client(endpoint, purpose)).queue(`${queue}-empty`).lease();
    }
    return { open: this.#open };
  }

  /** Hands one task to one of the polls. */
  async wake({ endpoint, queue }: JobOf<'wake-poll'>): Promise<JobResults['wake-poll']> {
    const served = Promise.withResolvers<{ readonly task: Dequeue; readonly at: number }>();
    this.#woken = 0;
    this.#onTask = (task, at) => served.resolve({ task, at });
    const stub = await this.#connections.stub(endpoint, 'producer');
    const began = performance.now();
    await updateTasks(stub, { enqueue: newTasks(queue, 1) });
    const { task, at } = await served.promise;
    await new Promise((resolve) => setTimeout(resolve, SECOND_WAKE_MS));
    await updateTasks(stub, { dequeue: [task] });
    return { ms: at - began, woken: this.#woken };
  }

  #wait(reply: Promise<Dequeue | undefined>): void {
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

async function stubPoll(stub: TaskMasterServiceClient, queue: string): Promise<Dequeue | undefined> {
  const [task] = await leaseTasks(stub, queue, 1, { waitMs: POLL_MS });
  return task && dequeueOf(task);
}

async function clientPoll(client: TaskMasterClient, queue: string): Promise<Dequeue | undefined> {
  const [task] = await client.queue(queue).lease({ wait: POLL_MS });
  return task && { queue, pid: task.pid, leaseToken: task.leaseToken };
}
