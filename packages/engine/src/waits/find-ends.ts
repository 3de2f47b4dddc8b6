import { limits, type QueueName } from '@taskmaster/proto';
import type { AwaitedTask, EndedTask, WaitCommand } from '../domain/commands.ts';
import { decodeEnd, recordPid } from '../domain/end-record.ts';
import type { Pid } from '../domain/ids.ts';
import { UNKNOWN_END } from '../domain/task-end.ts';
import type { EngineState } from '../engine-state.ts';
import { dueFor, showAllDue } from '../operations/expire.ts';
import { type Need, Reads } from '../pending/reads.ts';
import { endRecords } from '../records/record-store.ts';
import { endOfLease } from './ends-in.ts';

/** The awaited tasks that are not in their queues, as far as one reply can hold them. */
export async function findEnds(engineState: EngineState, { tasks }: WaitCommand): Promise<EndedTask[]> {
  const queues = new Map(tasks.map(({ queue }) => [queue.name, queue]));
  await showAllDue(engineState, dueFor(engineState, queues.values()));
  using reads = new Reads(engineState);
  for (;;) {
    const search = new Search(engineState, reads);
    for (const [index, task] of tasks.entries()) if (!search.look(index, task)) break;
    if (search.needs.length === 0) {
      await engineState.durable();
      return search.ended;
    }
    await reads.fetch(search.needs);
  }
}

/** One look at tasks. It finds what must be read first, or the ends. */
class Search {
  readonly ended: EndedTask[] = [];
  readonly needs: Need[] = [];
  readonly #engineState: EngineState;
  readonly #reads: Reads;
  /** Bytes of the records found so far. */
  #bytes = 0;

  constructor(engineState: EngineState, reads: Reads) {
    this.#engineState = engineState;
    this.#reads = reads;
  }

  /** False: the reply is full. */
  look(index: number, { queue: name, pid, token }: AwaitedTask): boolean {
    // What stands in the queue counts first: a later task with this PID has not ended.
    const task = this.#task(name, pid);
    if (task !== 'absent') {
      const end = task === 'unknown' ? undefined : endOfLease(task.state, token);
      if (end !== undefined) this.ended.push({ index, end });
      return true;
    }
    const record = this.#task(endRecords.of(name.group), recordPid(name.name, pid));
    if (record === 'unknown') return true;
    if (record !== 'absent') {
      const bytes = record.state.dataBytes;
      if (this.#bytes > 0 && this.#bytes + bytes > limits.replyDataBytes) return false;
      this.#bytes += bytes;
      const { queue } = record;
      const data = record.data ?? this.#reads.payload(queue, record.pid);
      if (data === undefined) this.needs.push({ queue, pid: record.pid, payloadBytes: bytes });
      else this.ended.push({ index, end: decodeEnd(data) });
      return true;
    }
    this.ended.push({ index, end: UNKNOWN_END });
    return true;
  }

  #task(name: QueueName, pid: Pid) {
    const queue = this.#engineState.table.get(name);
    if (queue === undefined) return 'absent';
    const knowledge = this.#reads.known(queue, pid);
    if (knowledge.kind === 'unknown') this.needs.push({ queue, pid, payloadBytes: 0 });
    return knowledge.kind === 'task' ? { ...knowledge.task, queue, pid } : knowledge.kind;
  }
}
