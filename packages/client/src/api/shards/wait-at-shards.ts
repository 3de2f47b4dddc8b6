import type { TaskEnd, WaitForOptions } from '../../tasks/wait-for.ts';

/** A shard, as a wait needs it. */
interface Shard {
  waitForEnd<R>(pid: Uint8Array, options: WaitForOptions<R>): Promise<TaskEnd<R>>;
}

/**
 * Waits for a task in all shards, because a PID that a node has assigned says nothing of the shard. The first shard that knows
 * how it ended decides. Rejects with the error of a shard if no other knows.
 */
export async function waitAtShards<R>(
  shards: readonly Shard[],
  pid: Uint8Array,
  options: WaitForOptions<R>,
): Promise<TaskEnd<R>> {
  const over = new AbortController();
  const signal = AbortSignal.any([over.signal, ...(options.signal === undefined ? [] : [options.signal])]);
  const known = async (shard: Shard): Promise<TaskEnd<R>> => {
    const end = await shard.waitForEnd(pid, { ...options, signal });
    if (end.outcome === 'unknown') throw new UnknownThere(end);
    return end;
  };
  try {
    return await Promise.any(shards.map(known));
  } catch (thrown) {
    const causes: unknown[] = thrown instanceof AggregateError ? thrown.errors : [thrown];
    const [failure] = causes.filter((cause) => !(cause instanceof UnknownThere));
    if (failure !== undefined) throw failure;
    const [first] = causes;
    if (first instanceof UnknownThere) return first.end as TaskEnd<R>;
    throw thrown;
  } finally {
    over.abort();
  }
}

/** A shard does not know the task. */
class UnknownThere extends Error {
  readonly end: TaskEnd;

  constructor(end: TaskEnd) {
    super('the shard does not know the task');
    this.end = end;
  }
}
