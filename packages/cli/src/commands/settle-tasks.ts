import { isTaskMasterError, type Update, type UpdateOutcome } from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import { nameObject, nameText } from '../input/task-names.ts';
import { type RefSource, type TaskRef, taskRefs } from '../input/task-refs.ts';
import type { Session } from '../session/session.ts';
import { AlreadyReportedError, UsageError } from '../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { countOf } from '../views/format.ts';
import { errorLine, errorReport } from '../views/report-error.ts';
import { InFlight } from './in-flight.ts';

/** How a command changes each task. */
export interface Settling {
  /** `completed`, `renewed` or `released`. */
  readonly done: string;
  readonly add: (update: Update, ref: TaskRef) => void;
  /** Fields of the JSON output besides queue, PID and result. */
  readonly describe: (outcome: UpdateOutcome) => object;
  /** Addition to the output for people. */
  readonly note?: (outcome: UpdateOutcome) => string | undefined;
}

/** Updates in flight at the same time. The client joins them into fewer messages. */
const IN_FLIGHT = 256;
/** Tasks in one update. A completion that enqueues tasks has several items, and the node may refuse fewer tasks. */
const ATOMIC_TASKS = limits.updateItems;

/** Settles all tasks of the source: each in its own update, or all in one update. */
export async function settleTasks(
  session: Session,
  source: RefSource,
  settling: Settling,
  isAtomic: boolean,
): Promise<ExitCode> {
  return isAtomic ? settleAtOnce(session, source, settling) : settleEach(session, source, settling);
}

async function settleEach(session: Session, source: RefSource, settling: Settling): Promise<ExitCode> {
  const inFlight = new InFlight(IN_FLIGHT);
  let done = 0;
  let refused = 0;
  const settle = async (ref: TaskRef): Promise<void> => {
    const update = session.client.update();
    settling.add(update, ref);
    try {
      // Ctrl-C does not abort this call, because the output must say whether the update was applied.
      const outcome = await update.commit();
      done++;
      await report(session, ref, settling, outcome);
    } catch (error) {
      // Go on after a refused task. Stop when the node fails.
      if (!isTaskMasterError(error) || error.items.length === 0 || isOnly(source)) throw error;
      refused++;
      reportRefusal(session, ref, error);
    }
  };
  try {
    for await (const ref of taskRefs(source, session)) await inFlight.add(() => settle(ref));
    await inFlight.drain();
  } finally {
    await inFlight.settled();
    if (!isOnly(source)) summarise(session, settling, done, refused);
  }
  if (refused > 0) throw new AlreadyReportedError('some tasks were refused');
  return exitCodes.ok;
}

async function settleAtOnce(session: Session, source: RefSource, settling: Settling): Promise<ExitCode> {
  const refs: TaskRef[] = [];
  for await (const ref of taskRefs(source, session)) {
    refs.push(ref);
    if (refs.length > ATOMIC_TASKS) throw new UsageError(`one update has at most ${ATOMIC_TASKS} tasks`);
  }
  if (refs.length === 0) return exitCodes.ok;
  const update = session.client.update();
  for (const ref of refs) settling.add(update, ref);
  const outcome = await update.commit();
  const perTask = outcome.enqueued.length / refs.length;
  for (const [at, ref] of refs.entries()) {
    await report(session, ref, settling, {
      published: [],
      signals: [],
      enqueued: outcome.enqueued.slice(at * perTask, (at + 1) * perTask),
      renewed: outcome.renewed.slice(at, at + 1),
      released: outcome.released.slice(at, at + 1),
    });
  }
  return exitCodes.ok;
}

async function report({ out }: Session, ref: TaskRef, settling: Settling, outcome: UpdateOutcome): Promise<void> {
  const { queue, name } = ref;
  if (out.json) {
    await out.object({ queue, ...nameObject(name), result: settling.done, ...settling.describe(outcome) });
    return;
  }
  const note = settling.note?.(outcome);
  await out.line(`${settling.done}  ${queue}  ${nameText(name)}${note === undefined ? '' : `  ${note}`}`);
}

function reportRefusal({ out, err }: Session, { queue, name }: TaskRef, error: unknown): void {
  const refusal = errorReport(error);
  if (out.json) err.object({ error: { ...refusal, queue, ...nameObject(name) } });
  else err.line(errorLine(refusal));
}

function summarise({ out, err }: Session, { done: how }: Settling, done: number, refused: number): void {
  if (out.json) return;
  const rest = refused === 0 ? '' : `, ${countOf(refused, 'task')} refused`;
  err.line(`${countOf(done, 'task')} ${how}${rest}`);
}

/** A single task on the command line. It needs no summary. */
function isOnly({ names, file }: RefSource): boolean {
  return file === undefined && names.length === 1;
}
