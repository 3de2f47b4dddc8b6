import { Deque } from '@js-sdsl/deque';
import type { Ticket } from '@taskmaster/server/domain';
import { takeFirst } from '../../domain/deques.ts';
import { writeTaskRows } from '../../log/atom-rows.ts';
import type { WriteBatch } from '../../ports/write-batch.ts';
import type { Queue, RecentChange } from '../queues/queue.ts';

/** So many changed tasks may have rows that are behind; with payloads in memory, so many bytes of them. */
const MOST_TASKS = 8_192;
const MOST_BYTES = 8 * 1024 * 1024;

export interface ChangedTask {
  readonly queue: Queue;
  readonly recent: RecentChange;
}

/**
 * Tasks whose rows are behind what is committed, those that have been so for longest first. What becomes of a task in the
 * meantime is written as one change: nothing, for one that came and went. The commit log has all of it, so nothing is lost;
 * reads are corrected by `Queue.recentChanges`.
 */
export class UnwrittenTasks {
  readonly #tasks = new Deque<ChangedTask | undefined>();
  #bytes = 0;
  #noted = 0;
  #shown = 0;

  get size(): number {
    return this.#tasks.size();
  }

  /** How many were noted since the beginning. */
  get noted(): number {
    return this.#noted;
  }

  /** The rows of how many of those, the first, can be read. */
  get shown(): number {
    return this.#shown;
  }

  /** How many tasks there are beyond what may wait. */
  get excess(): number {
    const { size } = this;
    const ofBytes = this.#bytes > MOST_BYTES ? Math.ceil(size * (1 - MOST_BYTES / this.#bytes)) : 0;
    return Math.max(size - MOST_TASKS, ofBytes);
  }

  /** A task changed: its rows are behind, if they were not before. */
  note(queue: Queue, recent: RecentChange): void {
    const bytes = recent.task?.data?.byteLength ?? 0;
    this.#bytes += bytes - recent.unwrittenBytes;
    recent.unwrittenBytes = bytes;
    if (recent.isUnwritten) return;
    recent.isUnwritten = true;
    this.#noted++;
    this.#tasks.pushBack({ queue, recent });
  }

  /** Writes rows of the first tasks, so many at most. Returns what is to be called when they can be read. */
  write(rows: WriteBatch, most: number): () => void {
    const written: (ChangedTask & { readonly ticket: Ticket })[] = [];
    for (let count = Math.min(most, this.size); count > 0; count--) {
      const task = takeFirst(this.#tasks);
      if (task === undefined) break;
      const { queue, recent } = task;
      this.#bytes -= recent.unwrittenBytes;
      recent.unwrittenBytes = 0;
      recent.isUnwritten = false;
      // The rows of a queue that has ended are deleted by range, if there are any.
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
