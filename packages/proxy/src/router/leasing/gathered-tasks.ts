import { formatQueueName, parseQueueName } from '@taskmaster/proto';
import { REPLY_BYTES } from '@taskmaster/server/service';
import { readEntries, readLeased, writeEntries } from '../../upstream/raw-codec.ts';

interface Gathered {
  readonly bytes: Uint8Array;
  /** Index of its queue in the request. */
  readonly rank: number;
}

/** Tasks leased from several nodes for one reply. */
export class GatheredTasks {
  readonly #maxTasks: number;
  readonly #maxBytes: number;
  readonly #ranks: ReadonlyMap<string, number>;
  #tasks: Gathered[] = [];
  #dataBytes = 0;
  #replyBytes = 0;
  #overflowed = false;

  /** `queues`: in the order of the request. `maxBytes`: of payload. */
  constructor(queues: readonly string[], maxTasks: number, maxBytes: number) {
    this.#maxTasks = maxTasks;
    this.#maxBytes = maxBytes;
    this.#ranks = new Map([...queues].reverse().map((queue, at) => [canonical(queue), queues.length - 1 - at]));
  }

  get count(): number {
    return this.#tasks.length;
  }

  /** How many more tasks fit. */
  get roomTasks(): number {
    return this.#overflowed ? 0 : this.#maxTasks - this.#tasks.length;
  }

  /** How many more bytes of payload fit. */
  get roomBytes(): number {
    return this.#maxBytes - this.#dataBytes;
  }

  get isFull(): boolean {
    return this.roomTasks <= 0 || this.roomBytes <= 0;
  }

  /**
   * Adds the tasks of a LeaseTasksResponse. Returns the tasks that do not fit. The first task always fits: a node sends at least
   * one.
   */
  add(reply: Uint8Array): Uint8Array[] {
    const tasks = readEntries(reply);
    for (const [index, bytes] of tasks.entries()) {
      const { queue, dataBytes } = readLeased(bytes);
      const fits =
        this.roomTasks > 0 &&
        this.#replyBytes + bytes.length + ENTRY_BYTES <= REPLY_BYTES &&
        (this.#tasks.length === 0 || this.#dataBytes + dataBytes <= this.#maxBytes);
      if (!fits) {
        this.#overflowed = true;
        return tasks.slice(index);
      }
      this.#tasks.push({ bytes, rank: this.#ranks.get(queue) ?? this.#ranks.size });
      this.#dataBytes += dataBytes;
      this.#replyBytes += bytes.length + ENTRY_BYTES;
    }
    return [];
  }

  /** The tasks, in the order of their queues in the request. Tasks of one queue keep the order of their node. */
  tasks(): Uint8Array[] {
    return this.#tasks.sort((a, b) => a.rank - b.rank).map(({ bytes }) => bytes);
  }

  /** The tasks as an encoded LeaseTasksResponse. */
  reply(): Uint8Array {
    return writeEntries(this.tasks());
  }
}

/** Maximum size of a task's tag and length in a reply, in bytes. */
const ENTRY_BYTES = 6;

function canonical(queue: string): string {
  return formatQueueName(parseQueueName(queue));
}
