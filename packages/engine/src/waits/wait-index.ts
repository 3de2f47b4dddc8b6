import { formatQueueName } from '@taskmaster/proto';
import type { Pid } from '../domain/ids.ts';
import type { TaskWait } from './task-wait.ts';

/** The waits that name a task, each with the places of the task in it. Nearly all name it once. */
export type Waiting = ReadonlyMap<TaskWait, number | readonly number[]>;

/** Waits by the tasks that they name. */
export class WaitIndex {
  /** By full name of the queue, then by PID. */
  readonly #byQueue = new Map<string, Map<Pid, Map<TaskWait, number | readonly number[]>>>();
  readonly #waits = new Set<TaskWait>();

  add(wait: TaskWait): void {
    if (this.#waits.has(wait)) return;
    this.#waits.add(wait);
    for (const [index, { queue, pid }] of wait.command.tasks.entries()) {
      const name = formatQueueName(queue);
      let byPid = this.#byQueue.get(name);
      if (byPid === undefined) {
        byPid = new Map();
        this.#byQueue.set(name, byPid);
      }
      const waiting = byPid.get(pid);
      const places = waiting?.get(wait);
      if (waiting === undefined) byPid.set(pid, new Map([[wait, index]]));
      else if (places === undefined) waiting.set(wait, index);
      else waiting.set(wait, [places, index].flat());
    }
  }

  remove(wait: TaskWait): void {
    if (!this.#waits.delete(wait)) return;
    for (const { queue, pid } of wait.command.tasks) {
      const name = formatQueueName(queue);
      const byPid = this.#byQueue.get(name);
      const waiting = byPid?.get(pid);
      waiting?.delete(wait);
      if (waiting?.size === 0) byPid?.delete(pid);
      if (byPid?.size === 0) this.#byQueue.delete(name);
    }
  }

  /** Undefined: none. */
  of(queue: string, pid: Pid): Waiting | undefined {
    return this.#byQueue.get(queue)?.get(pid);
  }

  /** The awaited tasks of a queue. */
  ofQueue(queue: string): Iterable<readonly [Pid, Waiting]> {
    return this.#byQueue.get(queue) ?? [];
  }
}
