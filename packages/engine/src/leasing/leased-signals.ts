import { limits } from '@taskmaster/proto';
import type { AnswerRoom } from '../admission.ts';
import type { LeasedSignals } from '../domain/commands.ts';
import type { Pid } from '../domain/ids.ts';
import { taskKey } from '../domain/keys.ts';
import { SignalBox, shownBytes } from '../domain/signal-box.ts';
import type { TaskState } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { boxRecordOf } from '../operations/flows/signal.ts';
import { TaskDraft } from '../operations/task-draft.ts';
import { EngineView } from '../pending/engine-view.ts';
import { Reads } from '../pending/reads.ts';
import { Family } from '../ports/store.ts';
import type { Queue } from '../queues/queue.ts';
import type { FoundRecord } from '../records/record-store.ts';

/** A task that was leased. */
interface Leased {
  readonly queue: Queue;
  readonly pid: Pid;
  readonly state: TaskState;
}

/** Whether signals came for the task that say something. */
export const hasSignals = ({ state }: Pick<Leased, 'state'>): boolean => state.history?.waits?.box === true;

/**
 * Reads what came for leased tasks, as far as it fits into `bytes`. What is too large for a lease is not read, and the caller can
 * ask for it. It does not change any more, because the tasks wait no longer; but it goes with its task.
 */
export async function readSignals<T extends Leased>(
  engineState: EngineState,
  tasks: readonly T[],
  bytes: number,
): Promise<ReadonlyMap<T, LeasedSignals>> {
  using reads = new Reads(engineState);
  const records = await findRecords(engineState, tasks, reads);
  const signals = new Map<T, LeasedSignals>();
  const fitting: (readonly [task: T, record: FoundRecord])[] = [];
  let toRead = 0;
  for (const [task, record] of records) {
    const { dataBytes } = record.task.state;
    signals.set(task, LEFT_OUT);
    if (dataBytes > limits.leasedSignalsBytes || toRead + dataBytes > bytes) continue;
    toRead += dataBytes;
    fitting.push([task, record]);
  }
  using room = roomFor(engineState, toRead);
  if (room === undefined) return signals;
  const keys = fitting.map(([, { queue, pid }]) => taskKey(queue.prefix, pid));
  const rows = keys.length === 0 ? [] : await engineState.store.get(Family.data, keys);
  let left = bytes;
  for (const [at, [task, { queue, pid, task: record }]] of fitting.entries()) {
    const pending = queue.pendingOf(pid);
    const data = record.data ?? pending?.data ?? rows[at];
    // If the task has ended meanwhile, the record may be that of a later one.
    const isGone = queue.dropped || (pending !== undefined && pending.now === undefined);
    if (data === undefined || isGone) {
      signals.delete(task);
      continue;
    }
    const box = SignalBox.decode(data);
    const shown = shownBytes(box, queue.ledger.name.group);
    if (shown > limits.leasedSignalsBytes || shown > left) continue;
    left -= shown;
    signals.set(task, { kind: 'all', box });
  }
  return signals;
}

const LEFT_OUT: LeasedSignals = { kind: 'left out' };

/** Room for what is read. Undefined: there is none now. A lease that has room for its tasks does not wait for more. */
const roomFor = ({ admission }: EngineState, bytes: number): AnswerRoom | undefined => admission.tryAnswer(bytes);

async function findRecords<T extends Leased>(
  engineState: EngineState,
  tasks: readonly T[],
  reads: Reads,
): Promise<readonly (readonly [task: T, record: FoundRecord])[]> {
  for (;;) {
    const draft = new TaskDraft(new EngineView(engineState, engineState.clock.now(), reads));
    const found: (readonly [task: T, record: FoundRecord])[] = [];
    for (const task of tasks) {
      const record = boxRecordOf(draft, task.queue, task.pid);
      if (record !== undefined) found.push([task, record]);
    }
    if (draft.needs.length === 0) return found;
    await reads.fetch(draft.needs);
  }
}
