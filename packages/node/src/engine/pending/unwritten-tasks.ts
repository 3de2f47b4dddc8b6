import { Deque } from '@js-sdsl/deque';
import type { Ticket } from '@taskmaster/server/domain';
import { takeFirst } from '../../domain/deques.ts';
import { writeTaskRows } from '../../log/atom-rows.ts';
import type { WriteBatch } from '../../ports/write-batch.ts';
import type { Queue, RecentChange } from '../queues/queue.ts';

/** Limits of the tasks with stale rows: their number, and the payload bytes that they keep in memory. */
const MOST_TASKS = 8_192;
const MOST_BYTES = 8 * 1024 * 1024;

export interface ChangedTask {
  readonly queue: Queue;
  readonly recent: RecentChange;
}

/**
 * Tasks whose rows are stale, longest stale first. All changes of a task since its last row are written as one. The commit log
 * has every change, so a crash loses none. Until rows are written, `Queue.recentChanges` corrects reads.
 */
export class UnwrittenTasks {
  readonly #tasks = new Deque<ChangedTask | undefined>();
  #bytes = 0;
  #noted = 0;
  #shown = 0;

  get size(): number {
    return this.#tasks.size();
  }

  /** Number of tasks noted since the start. */
  get noted(): number {
    return this.#noted;
  }

  /** How many of the noted tasks, in order, have rows that can be read. */
  get shown(): number {
    return this.#shown;
  }

  /** Number of tasks beyond the limits. */
  get excess(): number {
    const { size } = this;
    const ofBytes = this.#bytes > MOST_BYTES ? Math.ceil(size * (1 - MOST_BYTES / this.#bytes)) : 0;
    return Math.max(size - MOST_TASKS, ofBytes);
  }

  /** Notes that a task has changed and its rows are stale. */
  note(queue: Queue, recent: RecentChange): void {
    const bytes = recent.task?.data?.byteLength ?? 0;
    this.#bytes += bytes - recent.unwrittenBytes;
    recent.unwrittenBytes = bytes;
    if (recent.isUnwritten) return;
    recent.isUnwritten = true;
    this.#noted++;
    this.#tasks.pushBack({ queue, recent });
  }

  /** Writes the rows of the first tasks, at most `most`. Returns a function to call when these rows can be read. */
  write(rows: WriteBatch, most: number): () => void {
    const written: (ChangedTask & { readonly ticket: Ticket })[] = [];
    for (let count = Math.min(most, this.size); count > 0; count--) {
      const task = takeFirst(this.#tasks);
      if (task === undefined) break;
      const { queue, recent } = task;
      this.#bytes -= recent.unwrittenBytes;
      recent.unwrittenBytes = 0;
      recent.isUnwritten = false;
      // The rows of an ended queue are deleted by range.
      if (queue.dropped) continue;
      writeTaskRows(rows, queue.prefix, recent.pid, recent);
      written.push({ queue, recent, ticket: recent.ticket });
      recent.wrote();
    }
    const taken = this.#noted - this.size;
    return () => {
      this.#shown = taken;
      for (const { queue, recent, ticket } of written) queue.applied(recent, ticket);
    };
  }
}
