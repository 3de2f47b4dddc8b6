import { Refusal } from '@taskmaster/engine/domain';
import type { SeededRandom } from '@taskmaster/engine/testing';
import type { SimCluster } from '@taskmaster/node/testing';
import type { Trouble } from '../trouble.ts';

export interface OperatorOptions {
  readonly cluster: SimCluster;
  readonly random: SeededRandom;
  readonly trouble: Trouble;
  /** Nodes that do not return. */
  readonly gone: ReadonlySet<string>;
}

const RETRY_MS = 500;
/** Time limit of a removal: a node that crashes meanwhile never answers. */
const PATIENCE_MS = 15_000;

/** Removes nodes that are lost with their disks, as soon as the cluster allows it. */
export class Operator {
  readonly #options: OperatorOptions;
  /** Nodes not removed yet, as far as the operator knows. */
  readonly #lost = new Set<string>();

  constructor(options: OperatorOptions) {
    this.#options = options;
  }

  remove(names: readonly string[]): void {
    const isBusy = this.#lost.size > 0;
    for (const name of names) this.#lost.add(name);
    if (!isBusy) this.#tryLater();
  }

  /** Removes all of them at once: none can be removed without the others. */
  #try(): void {
    const { cluster, random, trouble, gone } = this.#options;
    const { up } = cluster;
    const through = up.length === 0 ? undefined : random.pick(up);
    if (!through || through.isStarting || through.h.clock.standsStill) {
      this.#tryLater();
      return;
    }
    const { agent } = through;
    // An earlier removal may have succeeded although its answer was lost.
    for (const name of this.#lost) if (agent.members.get(`id-${name}`)?.state === 'left') this.#lost.delete(name);
    if (this.#lost.size === 0) return;
    // A node that only another lost member knew cannot be removed yet.
    const names = [...this.#lost].filter((name) => agent.members.has(`id-${name}`));
    if (names.length === 0) {
      this.#tryLater();
      return;
    }
    let isOver = false;
    const again = (): void => {
      if (!isOver) this.#tryLater();
      isOver = true;
    };
    this.#after(PATIENCE_MS, again);
    const nodeIds = names.map((name) => `id-${name}`);
    agent.removal.remove(nodeIds, { acceptLoss: true, waitMs: 0 }).then(
      ({ lost }) => {
        trouble.trace(() => `${names} removed, and with them partitions ${lost.map(({ id }) => id)}`);
        again();
      },
      (error: unknown) => {
        trouble.trace(() => `${names} could not be removed: ${error}`);
        for (const name of silentIn(error)) if (gone.has(name)) this.#lost.add(name);
        again();
      },
    );
  }

  #tryLater(): void {
    this.#after(RETRY_MS, () => this.#try());
  }

  #after(ms: number, what: () => void): void {
    const { time } = this.#options.cluster;
    time.at((time.now() + ms) as ReturnType<typeof time.now>, what);
  }
}

/** Members that the removal waits for. If they are lost, too, they must be removed in the same step. */
const silentIn = (error: unknown): readonly string[] =>
  error instanceof Refusal && error.reason === 'HOLDER_UNREACHABLE' ? (error.metadata.members ?? '').split(', ') : [];
