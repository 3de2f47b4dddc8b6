import { fieldBytes, formatQueueName, type LeaseTasksRequest, parseQueueName } from '@taskmaster/proto';
import { REPLY_BYTES } from '@taskmaster/server/calls';
import { readEntries, readEntriesOf, readLeased, writeEntries, writeField } from '../../upstream/raw-codec.ts';

interface Gathered {
  readonly bytes: Uint8Array;
  /** Place of its queue in the request. */
  readonly rank: number;
}

/** Tasks leased from several nodes for one reply. */
export class GatheredTasks {
  readonly #maxTasks: number;
  readonly #maxBytes: number;
  readonly #maxMoreQueues: number;
  readonly #ranks: ReadonlyMap<string, number>;
  /** By the id of the pattern. */
  readonly #ranksOfPatterns: ReadonlyMap<number, number>;
  #tasks: Gathered[] = [];
  /** Further queues with tasks that match patterns. */
  readonly #moreQueues: Uint8Array[] = [];
  #dataBytes = 0;
  #replyBytes = 0;
  #overflowed = false;

  /** `maxBytes`: of payload. */
  constructor({ queues, patterns, maxTasks, maxMoreQueues }: LeaseTasksRequest, maxBytes: number) {
    this.#maxMoreQueues = maxMoreQueues;
    // Between the queue before the pattern and the one behind it, in the order of the patterns.
    this.#ranksOfPatterns = new Map(
      patterns.map(({ id, afterQueues }, at) => [id, afterQueues - 1 + (at + 1) / (patterns.length + 1)]),
    );
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
    this.#moreQueues.push(...readEntriesOf(MORE_QUEUES_FIELD, reply));
    for (const [index, bytes] of tasks.entries()) {
      const { queue, dataBytes, patternId } = readLeased(bytes);
      const entryBytes = fieldBytes(bytes.length);
      const fits =
        this.roomTasks > 0 &&
        this.#replyBytes + entryBytes <= REPLY_BYTES &&
        (this.#tasks.length === 0 || this.#dataBytes + dataBytes <= this.#maxBytes);
      if (!fits) {
        this.#overflowed = true;
        return tasks.slice(index);
      }
      this.#tasks.push({
        bytes,
        rank: this.#ranks.get(queue) ?? this.#ranksOfPatterns.get(patternId) ?? this.#ranks.size,
      });
      this.#dataBytes += dataBytes;
      this.#replyBytes += entryBytes;
    }
    return [];
  }

  /** The tasks, in the order of their queues in the request. Tasks of one queue keep the order of their node. */
  tasks(): Uint8Array[] {
    return this.#tasks.sort((a, b) => a.rank - b.rank).map(({ bytes }) => bytes);
  }

  /** The tasks as an encoded LeaseTasksResponse. Its first tasks count, and then as many other queues as fit. */
  reply(): Uint8Array {
    const parts = [writeEntries(this.tasks())];
    let left = MORE_QUEUES_BYTES;
    for (const [index, queue] of this.#moreQueues.entries()) {
      left -= fieldBytes(queue.length);
      if (index >= this.#maxMoreQueues || left < 0) break;
      parts.push(writeField(MORE_QUEUES_FIELD, queue));
    }
    return Buffer.concat(parts);
  }
}

/** Number of the field `more_queues` of LeaseTasksResponse, and the maximum size of its entries, in bytes. */
const MORE_QUEUES_FIELD = 2;
const MORE_QUEUES_BYTES = 32 * 1024;

function canonical(queue: string): string {
  return formatQueueName(parseQueueName(queue));
}
