import { type QueueId, Refusal } from '@taskmaster/server/domain';
import { keysOf } from '../../domain/key-pointer.ts';
import type { EngineState } from '../../engine-state.ts';
import type { Queue } from '../../queues/queue.ts';
import { isExpected } from '../expire.ts';
import { deletedWithKeys, forgetKeys } from './forget-keys.ts';

/** Time between two looks. */
export const KEY_SWEEP_MS = 500;

interface DeletedQueue {
  readonly group: string;
  readonly queueId: QueueId;
}

/** Removes the keys of deleted queues in the background. */
export class KeySweep {
  readonly #memory: () => EngineState | undefined;
  readonly #deleted = new Set<DeletedQueue>();

  /** `memory`: undefined while nothing can be written. */
  constructor(memory: () => EngineState | undefined) {
    this.#memory = memory;
  }

  /** The next look removes the keys of this queue, which was deleted. */
  forget({ ledger: { name, queueId } }: Queue): void {
    this.#deleted.add({ group: name.group, queueId });
  }

  /** Call it again when it has ended. */
  async look(): Promise<void> {
    const memory = this.#memory();
    if (!memory) return;
    for (const one of this.#deleted) {
      const keys = memory.table.get(keysOf(one.group));
      // Without keys here, the node that holds the group now finds them itself.
      const isDone = keys === undefined || (await this.#try(memory, keys, () => forgetKeys(memory, keys, one.queueId)));
      if (isDone) this.#deleted.delete(one);
    }
    for (const keys of memory.adoptedKeys) {
      if (await this.#try(memory, keys, () => this.#forgetDeleted(memory, keys))) memory.adoptedKeys.delete(keys);
    }
  }

  async #forgetDeleted(memory: EngineState, keys: Queue): Promise<void> {
    for await (const queueId of deletedWithKeys(memory, keys, () => this.#memory() === memory)) {
      await forgetKeys(memory, keys, queueId);
    }
  }

  /** Resolves with false if it is to be done later. Damaged keys, which reads report, are left where they are. */
  async #try(memory: EngineState, { partition }: Queue, work: () => Promise<void>): Promise<boolean> {
    if (this.#memory() !== memory || !memory.holdings.canCommit(partition)) return false;
    try {
      await work();
      return this.#memory() === memory;
    } catch (error) {
      if (!isExpected(error)) throw error;
      return !(error instanceof Refusal);
    }
  }
}
