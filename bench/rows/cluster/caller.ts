import { setTimeout as delay } from 'node:timers/promises';
import { credentials, Metadata } from '@grpc/grpc-js';
import { TaskMasterServiceClient, type UpdateTasksRequest } from '@taskmaster/proto';
import { newTasks } from '../../load/stub-calls.ts';

/** Time between two calls of a caller, even if earlier calls are not answered yet. */
const EVERY_MS = 25;
const PATIENCE_MS = 30_000;
const NOTHING = Buffer.alloc(0);

/** Enqueues all the time. Unanswered calls do not delay the next ones. */
export class Caller implements Disposable {
  readonly #client: TaskMasterServiceClient;
  readonly #request: UpdateTasksRequest;
  readonly #ownConnections: boolean;
  readonly #endpoint: string;

  /** `ownConnections`: each call has its own connection, so that no call waits for a reconnect. */
  constructor(endpoint: string, group: string, ownConnections: boolean) {
    this.#endpoint = endpoint;
    this.#ownConnections = ownConnections;
    this.#client = new TaskMasterServiceClient(endpoint, credentials.createInsecure());
    const enqueue = newTasks(`${group}#kill`, 1, 0);
    this.#request = { enqueue, dequeue: [], renew: [], release: [], requestId: NOTHING, parts: [] };
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }

  /** Resolves when a call that is made after this one is answered. */
  async answer(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const end = performance.now() + PATIENCE_MS;
    let answered = false;
    void promise.then(() => {
      answered = true;
    });
    while (!answered) {
      if (performance.now() > end) throw new Error(`${this.#endpoint} did not answer for ${PATIENCE_MS} ms`);
      this.#call(resolve);
      await Promise.race([promise, delay(EVERY_MS)]);
    }
  }

  #call(answered: () => void): void {
    const options = { 'grpc.use_local_subchannel_pool': 1 };
    const client = this.#ownConnections
      ? new TaskMasterServiceClient(this.#endpoint, credentials.createInsecure(), options)
      : this.#client;
    client.updateTasks(this.#request, new Metadata(), { deadline: Date.now() + PATIENCE_MS }, (error) => {
      if (client !== this.#client) client.close();
      if (error === null) answered();
    });
  }
}
