import type { Clock } from '@taskmaster/server/ports';
import { writeCheckpoint } from '../log/checkpoint.ts';
import type { Store } from '../ports/store.ts';
import { WriteBatch } from '../ports/write-batch.ts';
import type { EngineState } from './engine-state.ts';

/** Writes checkpoints. With relaxed durability, also makes earlier writes durable between them. */
export class Checkpoints {
  readonly #store: Store;
  readonly #clock: Clock;
  /** Number of atoms at the last flush. */
  #flushedAtoms = 0;
  /** True if rows other than those of atoms were written since the last flush. */
  #flushPending = false;

  constructor({ store, clock }: { readonly store: Store; readonly clock: Clock }) {
    this.#store = store;
    this.#clock = clock;
  }

  async write(memory: EngineState): Promise<void> {
    await memory.writeTasks();
    const changed = memory.takeChanged();
    if (changed.length === 0) return;
    this.#flushPending = true;
    // Of all partitions: a synced write makes everything before it durable.
    const tickets = memory.lastTickets();
    await writeCheckpoint({ store: this.#store, log: memory.log }, changed, this.#clock.mark());
    memory.synced(tickets);
  }

  /** For relaxed durability: makes all earlier writes durable. */
  async flush(memory: EngineState): Promise<void> {
    const { atoms } = memory.log.figures;
    if (atoms === this.#flushedAtoms && !this.#flushPending) return;
    this.#flushedAtoms = atoms;
    this.#flushPending = false;
    await this.#store.write(new WriteBatch(), { sync: true });
  }
}
