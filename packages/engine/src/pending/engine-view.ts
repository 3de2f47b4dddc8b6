import type { QueueName } from '@taskmaster/proto';
import type { Instant, Pid } from '../domain/ids.ts';
import type { EngineState } from '../engine-state.ts';
import type { UpdateView } from '../operations/plan-update.ts';
import type { Random } from '../ports/random.ts';
import type { Knowledge, KnownLast, Queue } from '../queues/queue.ts';
import type { Reads } from './reads.ts';

/** The state that one operation sees: memory, completed by its reads of the store, if any. */
export class EngineView implements UpdateView {
  readonly now: Instant;
  readonly random: Random;
  readonly #engineState: EngineState;
  readonly #reads: Reads | undefined;
  readonly #notShown: ReadonlySet<Queue> | undefined;

  constructor(engineState: EngineState, now: Instant, reads?: Reads, notShown?: ReadonlySet<Queue>) {
    this.now = now;
    this.random = engineState.random;
    this.#engineState = engineState;
    this.#reads = reads;
    this.#notShown = notShown;
  }

  queue(name: QueueName): Queue | undefined {
    return this.#engineState.table.get(name);
  }

  draftQueue(name: QueueName, drafts: number): Queue {
    return this.#engineState.draftQueue(name, drafts);
  }

  known(queue: Queue, pid: Pid): Knowledge {
    return this.#reads ? this.#reads.known(queue, pid) : queue.lookUp(pid);
  }

  lastInOrder(queue: Queue, orderKey: string): KnownLast | undefined {
    return this.#reads ? this.#reads.lastInOrder(queue, orderKey) : queue.lastInOrder(orderKey);
  }

  canShowDue(queue: Queue): boolean {
    return !this.#notShown?.has(queue);
  }

  payload(queue: Queue, pid: Pid): Uint8Array | undefined {
    return this.#reads?.payload(queue, pid);
  }
}
