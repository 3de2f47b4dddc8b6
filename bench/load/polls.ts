import type { TaskMasterClient } from '@taskmaster/client';
import type { Dequeue, TaskMasterServiceClient } from '@taskmaster/proto';
import type { Connections } from './connections.ts';
import type { Job, JobResults } from './jobs.ts';
import { dequeueOf, leaseTasks, newTasks, updateTasks } from './stub-calls.ts';

type JobOf<Kind extends Job['kind']> = Extract<Job, { readonly kind: Kind }>;

const POLL_MS = 10 * 60_000;
/** The polls have surely reached the server after this number of later calls on the same connections is answered. */
const ROUND_TRIPS = 3;
/** Time to wait for a second poll that wrongly gets a task, in ms. */
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

  /** Enqueues one task and waits for the poll that gets it. */
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
      // At the end of the row the server is gone. An earlier error is noticed by the missing answer.
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
  return task && { queue, pid: task.pid, leaseToken: task.leaseToken, requeue: false };
}
