import { metaKeys } from './domain/keys.ts';
import type { OpenedEngineDeps } from './engine-deps.ts';
import type { EngineState } from './engine-state.ts';
import { writeCheckpoint } from './log/checkpoint.ts';
import { encodeClockMark } from './log/node-row.ts';
import type { Clock, ClockMark } from './ports/clock.ts';
import { Family, type Store } from './ports/store.ts';
import { WriteBatch } from './ports/write-batch.ts';

/** How often an idle engine looks whether its clock was corrected, in ms. */
const LOOK_MS = 60_000;
/** A smaller correction is not written, in ms. The uptime of a machine comes in steps of 10 ms. */
const WRITE_FROM_MS = 20;

/** Writes checkpoints. With relaxed durability, also makes earlier writes durable between them. */
export class Checkpoints {
  readonly #store: Store;
  readonly #clock: Clock;
  /** Number of atoms at the last flush. */
  #flushedAtoms = 0;
  /** True if rows other than those of atoms were written since the last flush. */
  #flushPending = false;
  /** The last mark that is on disk, or its state when the engine was opened. */
  #mark: ClockMark;
  /** When the clock was last compared with it. */
  #comparedAt: number;
  /** False with a shared store: the mark is of one machine. */
  readonly #hasMark: boolean;

  constructor({ store, clock, shared }: Pick<OpenedEngineDeps, 'store' | 'clock' | 'shared'>) {
    this.#hasMark = shared === undefined;
    this.#store = store;
    this.#clock = clock;
    this.#mark = clock.mark();
    this.#comparedAt = this.#mark.instant;
  }

  /** `isLast`: the engine stops after it. */
  async write(engineState: EngineState, isLast = false): Promise<void> {
    await engineState.writeTasks();
    const changed = engineState.takeChanged();
    if (changed.length === 0) {
      await this.#writeMark(isLast);
      return;
    }
    this.#flushPending = true;
    // Of all partitions: a synced write makes everything before it durable.
    const tickets = engineState.lastTickets();
    const mark = this.#clock.mark();
    const log = { store: this.#store, log: engineState.log };
    await writeCheckpoint(log, changed, this.#hasMark ? mark : undefined);
    this.#mark = mark;
    engineState.synced(tickets);
  }

  /** Writes how far the clock was corrected. Otherwise the next run would begin without the correction, with a jump. */
  async #writeMark(isLast: boolean): Promise<void> {
    if (!this.#hasMark) return;
    if (!isLast && this.#clock.now() - this.#comparedAt < LOOK_MS) return;
    const mark = this.#clock.mark();
    this.#comparedAt = mark.instant;
    const { instant, uptimeMs } = this.#mark;
    const correctedMs = mark.instant - instant - (mark.uptimeMs - uptimeMs);
    if (Math.abs(correctedMs) < WRITE_FROM_MS) return;
    const row = new WriteBatch();
    row.put(Family.meta, metaKeys.clock, encodeClockMark(mark));
    await this.#store.write(row, { sync: true });
    this.#mark = mark;
  }

  /** For relaxed durability: makes all earlier writes durable. */
  async flush(engineState: EngineState): Promise<void> {
    const { atoms } = engineState.log.figures;
    if (atoms === this.#flushedAtoms && !this.#flushPending) return;
    this.#flushedAtoms = atoms;
    this.#flushPending = false;
    await this.#store.write(new WriteBatch(), { sync: true });
  }
}
