import type { EnqueueCall, Outcome } from '@taskmaster/cli/testing/history';
import { withoutCancelled } from './ends.ts';
import type { ModelTask, World } from './world.ts';

// How many tasks may wait in a queue, and with one limit key in it, by the contract.

/** The caps of all queues of a run. 0: any number. */
export interface Caps {
  readonly maxBacklog: number;
  readonly maxKeyBacklog: number;
  readonly whenFull: 'refuse' | 'drop-oldest' | 'drop-newest';
}

type Enqueued = Extract<Outcome, { kind: 'updated' }>['enqueued'][number];

/** All tasks of a queue. Other scopes are limit keys. */
const ALL = '';

const isWaiting = ({ hidden }: ModelTask): boolean => hidden?.leasedBy === undefined;

const isIn = (scope: string, { limitKey }: ModelTask): boolean => scope === ALL || limitKey === scope;

const waitingIn = (world: World, queue: string, scope: string): number =>
  world.tasks(queue).filter((task) => isWaiting(task) && isIn(scope, task)).length;

/** What one update adds to the tasks that wait, as far as caps count it: new tasks, less those that it ends. */
export class Added {
  readonly #byQueue = new Map<string, Map<string, number>>();
  readonly #caps: Caps;

  constructor(caps: Caps) {
    this.#caps = caps;
  }

  add(queue: string, { limitKey }: ModelTask): void {
    this.#count(queue, limitKey, 1);
  }

  /** A task goes. One that is leased does not wait. */
  end(queue: string, task: ModelTask): void {
    if (isWaiting(task)) this.#count(queue, task.limitKey, -1);
  }

  #count(queue: string, limitKey: string | undefined, more: number): void {
    const scopes = this.#byQueue.get(queue) ?? new Map<string, number>();
    this.#byQueue.set(queue, scopes);
    // What is dropped of keys makes room in the queue.
    if (this.#caps.maxKeyBacklog > 0 && limitKey !== undefined)
      scopes.set(limitKey, (scopes.get(limitKey) ?? 0) + more);
    const all = scopes.get(ALL) ?? 0;
    scopes.delete(ALL);
    if (this.#caps.maxBacklog > 0) scopes.set(ALL, all + more);
  }

  #most(scope: string): number {
    return scope === ALL ? this.#caps.maxBacklog : this.#caps.maxKeyBacklog;
  }

  /** Whether the update is refused. */
  isRefused(before: World): boolean {
    if (this.#caps.whenFull !== 'refuse') return false;
    return [...this.#byQueue].some(([queue, scopes]) =>
      [...scopes].some(([scope, more]) => more > 0 && waitingIn(before, queue, scope) + more > this.#most(scope)),
    );
  }

  /** The world after the tasks are dropped that caps allow no more. Notes in `enqueued` which new ones are not added. */
  drop(before: World, after: World, enqueue: readonly EnqueueCall[], enqueued: Enqueued[]): World {
    let world = after;
    if (this.#caps.whenFull === 'refuse') return world;
    for (const [queue, scopes] of this.#byQueue) {
      const available = world.available(queue);
      let ofKeys = 0;
      for (const [scope, added] of scopes) {
        const more = scope === ALL ? added - ofKeys : added;
        let dropped = 0;
        const drop = (pid: string): boolean => {
          const task = world.task(queue, pid);
          if (task === undefined || !isWaiting(task) || !isIn(scope, task)) return false;
          world = withoutCancelled(world, queue, pid);
          dropped++;
          return true;
        };
        const fresh = [...enqueue.entries()].filter(
          ([index, item]) => item.queue === queue && enqueued[index]?.result === 'created',
        );
        if (this.#caps.whenFull === 'drop-newest') {
          const excess = Math.min(more, waitingIn(before, queue, scope) + more - this.#most(scope));
          for (const [index] of fresh.reverse()) {
            const one = enqueued[index];
            if (dropped < excess && one && drop(one.pid)) enqueued[index] = { ...one, result: 'dropped' };
          }
        } else {
          const excess = Math.min(more, waitingIn(world, queue, scope) - this.#most(scope));
          const newest = fresh.reverse().map(([index]) => enqueued[index]?.pid ?? '');
          for (const pid of [...available.map((task) => task.pid), ...newest]) if (dropped < excess) drop(pid);
        }
        if (scope !== ALL) ofKeys += dropped;
      }
    }
    return world;
  }
}
