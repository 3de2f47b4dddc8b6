import type { Key, Pid } from '../../domain/ids.ts';
import { taskKey } from '../../domain/keys.ts';
import type { TaskState } from '../../domain/task.ts';
import type { EngineState } from '../../engine-state.ts';
import { Family } from '../../ports/store.ts';
import type { Queue } from '../queue.ts';

/** Larger payloads are read when their task is leased, because a few of them would fill the cache. */
const LARGE_PAYLOAD_BYTES = 64 * 1024;
/** Payloads of one refill take at most the cache's budget divided by this. */
const CACHE_SHARE = 8;

/** Reads the payloads of tasks that will be leased soon: those of the first ones that are small, as far as there is room. */
export async function readPayloads(
  engineState: EngineState,
  queue: Queue,
  states: Iterable<readonly [Pid, TaskState]>,
): Promise<Map<Pid, Uint8Array>> {
  const most = engineState.cache.budget / CACHE_SHARE;
  let bytes = 0;
  const pids: Pid[] = [];
  const keys: Key[] = [];
  for (const [pid, { dataBytes }] of states) {
    if (dataBytes === 0 || dataBytes > LARGE_PAYLOAD_BYTES) continue;
    if (bytes + dataBytes > most) break;
    bytes += dataBytes;
    pids.push(pid);
    keys.push(taskKey(queue.prefix, pid));
  }
  const payloads = new Map<Pid, Uint8Array>();
  // Reading ahead does not wait for room. Without room, payloads are read when their tasks are leased.
  using room = keys.length > 0 ? engineState.admission.tryAnswer(bytes) : undefined;
  if (!room) return payloads;
  const rows = await engineState.store.get(Family.data, keys);
  for (const [i, pid] of pids.entries()) {
    const row = rows[i];
    if (row) payloads.set(pid, row);
  }
  return payloads;
}
