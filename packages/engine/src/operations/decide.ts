import type { Instant, PartitionId } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import type { EngineState } from '../engine-state.ts';
import { type AnyNeed, Reads } from '../pending/reads.ts';
import type { PlannedAtom } from '../planned-atom.ts';

/** The changes of a decision. */
export type Changes = Omit<PlannedAtom, 'partition' | 'at'>;

/** What an attempt has come to. */
export type Attempt<T> =
  /** It is decided. `changes` are committed in the same turn. Undefined: nothing changes. */
  | { readonly kind: 'decided'; readonly result: T; readonly changes?: Changes | undefined }
  /** Attempt it again after these have been read. */
  | { readonly kind: 'needs'; readonly needs: readonly AnyNeed[] }
  /** Attempt it again after this has ended. */
  | { readonly kind: 'waits'; readonly wait: () => Promise<unknown> };

/** A decision whose changes are committed. */
export interface Decided<T> {
  readonly result: T;
  /**
   * Resolves when the decision, and all that it is based on, is durable. Taken in the turn of the commit: asked for later, it
   * would also wait for commits behind this one, whose failure does not concern it.
   */
  readonly durable: Promise<void>;
}

/** Decides by the present state, and changes nothing. `reads`: what earlier attempts asked for. */
type Attempts<T> = (now: Instant, reads: Reads) => Attempt<T>;

/**
 * Decides and commits in one turn, so that no state changes in between. Before that it waits until the partition may be changed,
 * and until everything that the attempts need is in memory. Operations wait for their own reads only, never for each other.
 */
export async function decide<T>(
  engineState: EngineState,
  partition: PartitionId,
  attempt: Attempts<T>,
): Promise<Decided<T>> {
  using reads = new Reads(engineState);
  for (;;) {
    engineState.assertCurrent();
    const gate = engineState.holdings.gate(partition);
    if (gate !== undefined) {
      reads.giveRoomBack();
      await gate;
      continue;
    }
    const now = engineState.clock.now();
    const attempted = attempt(now, reads);
    if (attempted.kind === 'decided') return committed(engineState, partition, now, attempted);
    if (attempted.kind === 'needs') {
      await reads.fetch(attempted.needs);
      continue;
    }
    reads.giveRoomBack();
    await attempted.wait();
  }
}

/**
 * As `decide`, about the first of some items: half as many while what must be read for them is too large together. `count`: how
 * many it is.
 */
export async function decideSome<Item, T>(
  engineState: EngineState,
  partition: PartitionId,
  items: readonly Item[],
  attempt: (some: readonly Item[], now: Instant, reads: Reads) => Attempt<T>,
): Promise<Decided<T> & { readonly count: number }> {
  for (let count = items.length; ; count = Math.ceil(count / 2)) {
    const some = items.slice(0, count);
    try {
      return { ...(await decide(engineState, partition, (now, reads) => attempt(some, now, reads))), count };
    } catch (error) {
      if (count <= 1 || !isTooLarge(error)) throw error;
    }
  }
}

/** Whether a decision failed because what it must read is too large. */
export const isTooLarge = (error: unknown): boolean => error instanceof Refusal && error.reason === 'REQUEST_TOO_LARGE';

/** As `decide`, if the first attempt decides. Otherwise undefined, and nothing has changed. */
export function decideNow<T>(
  engineState: EngineState,
  partition: PartitionId,
  attempt: (now: Instant) => Attempt<T>,
): Decided<T> | undefined {
  engineState.assertCurrent();
  if (!engineState.holdings.canCommit(partition)) return undefined;
  const now = engineState.clock.now();
  const attempted = attempt(now);
  return attempted.kind === 'decided' ? committed(engineState, partition, now, attempted) : undefined;
}

function committed<T>(
  engineState: EngineState,
  partition: PartitionId,
  at: Instant,
  { result, changes }: Extract<Attempt<T>, { readonly kind: 'decided' }>,
): Decided<T> {
  if (changes !== undefined) engineState.commit({ partition, at, ...changes });
  return { result, durable: engineState.durable() };
}
