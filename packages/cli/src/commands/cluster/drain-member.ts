import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ClusterMember,
  type ClusterMembers,
  type ClusterNode,
  isTaskMasterError,
  type TaskMasterClient,
  type TaskMasterError,
} from '@taskmaster/client';
import type { Command } from 'commander';
import type { Runner, Session } from '../../session/session.ts';
import { CommandFailedError } from '../../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { count, countOf, duration } from '../../views/format.ts';
import { notesOf } from '../../views/help.ts';
import { Progress } from '../../views/progress.ts';
import { isTemporary } from '../../views/report-error.ts';

const notes = `
The member moves its partitions to other members, one by one, and leaves the cluster when it holds none. Then its process
ends. Tasks can be used all the time. A member that is to receive partitions must be alive: the drain waits for it.

The command waits until the member has left. After Ctrl-C the member goes on leaving. \`taskmaster members resume\` ends a drain
until the last partition is handed over; then the command fails with MEMBER_RESUMED.

Examples:
  $ taskmaster members drain node-b
  $ taskmaster members drain node-b --no-wait && taskmaster partitions --holder node-b`;

interface DrainFlags {
  readonly wait: boolean;
}

/** Progress of a drain. */
interface Drain {
  readonly name: string;
  /** Undefined: the member was unknown when the drain began. */
  readonly nodeId: string | undefined;
  /** Partitions that the member held when the drain began. */
  readonly total: number;
  /** Partitions that it still holds. */
  held: number;
  /** Names of dead members that are to receive partitions. */
  waitsFor: readonly string[];
  /** Whether a list of members has shown that it leaves. An earlier list may be that of a member that has not heard of it. */
  isSeen: boolean;
}

/** First pause between two polls, in ms. It is short, because small clusters are quick. */
const FIRST_POLL_MS = 100;
/** Longest pause between two polls, in ms. */
const POLL_MS = 1_000;
/** Timeout of one poll, in ms. */
const POLL_TIMEOUT_MS = 3_000;
/** Without a terminal: time between two lines with the progress, in ms. */
const LINE_EVERY_MS = 10_000;

export function addDrain(members: Command, runner: Runner): void {
  members
    .command('drain')
    .summary('move the partitions of a member to others, and have it leave')
    .description('Moves all partitions of a member to the other members. Then the member leaves the cluster.')
    .argument('<name>', 'name of the member')
    .option('--no-wait', 'do not wait until the member has left')
    .addHelpText('after', notesOf(notes))
    .action((name: string, flags: DrainFlags) => runner.connected((session) => drain(session, name, flags)));
}

async function drain(session: Session, name: string, { wait }: DrainFlags): Promise<ExitCode> {
  const { client, out, err, signal } = session;
  // Members that have left may have the same name, so the id identifies the member.
  const before = (await client.cluster.members({ signal })).members;
  await using poller = new MembersPoller(
    session,
    before.filter((member) => member.name !== name && member.nodeId !== name),
  );
  const isMeant = (one: ClusterMember): boolean => one.name === name || one.nodeId === name;
  const nodeId = before.find((one) => one.role === 'node' && isMeant(one) && one.state !== 'left')?.nodeId;
  const { partitionsHeld: total } = await client.cluster.drain(name, { signal });
  if (!wait) {
    if (out.json) await out.object({ name, nodeId, state: 'leaving', held: total });
    else await out.line(`${name}: leaving, with ${countOf(total, 'partition')} to hand over`);
    return exitCodes.ok;
  }
  const start = performance.now();
  const state: Drain = { name, nodeId, total, held: total, waitsFor: [], isSeen: false };
  try {
    await untilLeft(session, poller, state);
  } catch (error) {
    if (!(error instanceof DrainEndedError))
      err.line(`${name} is still leaving: ${leftOf(state)}; \`taskmaster members\` shows its progress`);
    throw error;
  }
  const elapsedMs = performance.now() - start;
  if (out.json) await out.object({ name, nodeId, state: 'left', handedOver: total, seconds: elapsedMs / 1000 });
  else await out.line(`${name}: left; ${countOf(total, 'partition')} handed over in ${duration(elapsedMs)}`);
  return exitCodes.ok;
}

async function untilLeft(session: Session, poller: MembersPoller, state: Drain): Promise<void> {
  const { out, err, signal, timeoutMs } = session;
  const text = (): string => `${state.name}: ${leftOf(state)}`;
  using _progress = out.json ? undefined : new Progress({ stream: err.stream, line: text });
  const printsLines = !out.json && !err.isTerminal;
  let printedAt = Number.NEGATIVE_INFINITY;
  let answeredAt = performance.now();
  for (let delayMs = FIRST_POLL_MS; ; delayMs = Math.min(POLL_MS, delayMs * 2)) {
    const now = performance.now();
    if (printsLines && now - printedAt >= LINE_EVERY_MS) {
      err.line(text());
      printedAt = now;
    }
    const polled = await poll(session, poller, state);
    if (polled === 'left') return;
    if (polled === 'leaving') {
      answeredAt = performance.now();
    } else if (performance.now() - answeredAt > timeoutMs) {
      throw polled;
    }
    await sleep(delayMs, undefined, { signal });
  }
}

/** The state of the member, or a temporary error. Updates the progress. */
async function poll(
  { signal }: Session,
  poller: MembersPoller,
  state: Drain,
): Promise<'left' | 'leaving' | TaskMasterError> {
  try {
    const { members } = await poller.members();
    const node = members.find((one): one is ClusterNode => one.role === 'node' && one.nodeId === state.nodeId);
    if (node?.removedBy !== undefined) {
      const message = `${state.name} was removed by ${node.removedBy} while it was leaving`;
      throw new CommandFailedError('MEMBER_LEFT', message, { hint: 'the tasks that it still held are lost' });
    }
    if (node === undefined || node.state === 'left') return 'left';
    if (node.state === 'leaving') state.isSeen = true;
    else if (state.isSeen) throw new DrainEndedError(state.name);
    state.held = node.partitionsHeld;
    state.waitsFor = members.filter(isAwaited).map((one) => one.name);
    return 'leaving';
  } catch (error) {
    if (signal.aborted || !isTaskMasterError(error) || !isTemporary(error)) throw error;
    return error;
  }
}

/** The drain was taken back. */
class DrainEndedError extends CommandFailedError {
  constructor(name: string) {
    super('MEMBER_RESUMED', `${name} stays: its drain was taken back`);
  }
}

/** Lists the members. When the endpoint fails it asks another member, because the endpoint may be the member that leaves. */
class MembersPoller implements AsyncDisposable {
  readonly #session: Session;
  readonly #others: readonly string[];
  #other: TaskMasterClient | undefined;

  constructor(session: Session, others: readonly ClusterMember[]) {
    this.#session = session;
    this.#others = others.flatMap(({ alive, rpcAddress }) => (alive && rpcAddress !== undefined ? [rpcAddress] : []));
  }

  /** @throws the error of the endpoint, when the other members do not answer either. */
  async members(): Promise<ClusterMembers> {
    const { client, signal, timeoutMs } = this.#session;
    const timeout = Math.min(timeoutMs, POLL_TIMEOUT_MS);
    if (this.#other !== undefined) return this.#other.cluster.members({ signal, timeout });
    try {
      return await client.cluster.members({ signal, timeout });
    } catch (error) {
      if (this.#others.length === 0 || !isTaskMasterError(error) || !isTemporary(error)) throw error;
      return await this.#throughOther(timeout).catch(() => {
        throw error;
      });
    }
  }

  async #throughOther(timeout: number): Promise<ClusterMembers> {
    const { signal, connectTo } = this.#session;
    const other = await connectTo(this.#others, timeout);
    try {
      const members = await other.cluster.members({ signal, timeout });
      this.#other = other;
      return members;
    } finally {
      if (this.#other !== other) await other.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#other?.close();
  }
}

/** A dead member that is to receive partitions, perhaps those of the leaving member. */
const isAwaited = (member: ClusterMember): boolean =>
  member.role === 'node' &&
  member.state === 'active' &&
  !member.alive &&
  member.partitionsWanted > member.partitionsHeld;

function leftOf({ held, total, waitsFor }: Drain): string {
  const left = `${count(held)} of ${countOf(total, 'partition')} left`;
  if (waitsFor.length === 0) return left;
  return `${left}; waits for ${waitsFor.join(', ')}: restart or remove it`;
}
