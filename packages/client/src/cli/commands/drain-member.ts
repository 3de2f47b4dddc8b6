import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import type { TaskMasterClient } from '../../api/client.ts';
import type { ClusterMember, ClusterMembers, ClusterNode } from '../../api/cluster.ts';
import { connect } from '../../api/connect.ts';
import { isTaskMasterError, type TaskMasterError } from '../../values/errors.ts';
import { escapeControls } from '../input/bytes-text.ts';
import { CommandFailedError } from '../output/cli-errors.ts';
import { type ExitCode, exitCodes } from '../output/exit-codes.ts';
import { count, countOf, duration } from '../output/format.ts';
import { notesOf } from '../output/help.ts';
import { Progress } from '../output/progress.ts';
import { mayPass } from '../output/report-error.ts';
import type { Runner, Session } from '../session.ts';

const notes = `
The member hands its partitions to the others, one by one, while everything goes on, and leaves when it has none any more;
its process ends by itself. Those that take them must be there: it waits for one that is not. Waits until then. Ctrl-C ends the waiting, not the leaving: nothing takes that back.

Examples:
  $ taskmaster members drain node-b
  $ taskmaster members drain node-b --no-wait && taskmaster partitions --holder node-b`;

interface DrainFlags {
  readonly wait: boolean;
}

/** How far a drain is. */
interface Drain {
  readonly name: string;
  /** Undefined: nobody knew the member when the drain began. */
  readonly nodeId: string | undefined;
  /** Partitions to hand over, in all. */
  readonly total: number;
  held: number;
  /** Names of members that are to take some of it, and are not there. */
  waitsFor: readonly string[];
}

/** Between two looks, in ms: soon at first, as small clusters are quick. */
const FIRST_LOOK_MS = 100;
const LOOKS_MS = 1_000;
/** One look that takes longer counts as one that failed. */
const LOOK_TIMEOUT_MS = 3_000;
/** Between two lines where no terminal shows the progress, in ms. */
const LINE_EVERY_MS = 10_000;

export function addDrain(members: Command, runner: Runner): void {
  members
    .command('drain')
    .summary('have a member hand everything over and leave')
    .description('Has a member hand everything over to the others and leave the cluster.')
    .argument('<name>', 'of the member')
    .option('--no-wait', 'do not wait until it has left')
    .addHelpText('after', notesOf(notes))
    .action((name: string, flags: DrainFlags) => runner.connected((session) => drain(session, name, flags)));
}

async function drain(session: Session, name: string, { wait }: DrainFlags): Promise<ExitCode> {
  const { client, out, err, signal } = session;
  const shown = escapeControls(name);
  // Several that have left may have this name; the one that is drained is told apart by its id.
  const before = (await client.cluster.members({ signal })).members;
  await using looker = new Looker(
    session,
    before.filter((member) => member.name !== name && member.nodeId !== name),
  );
  const isMeant = (one: ClusterMember): boolean => one.name === name || one.nodeId === name;
  const nodeId = before.find((one) => one.role === 'node' && isMeant(one) && one.state !== 'left')?.nodeId;
  const { partitionsHeld: total } = await client.cluster.drain(name, { signal });
  if (!wait) {
    if (out.json) await out.object({ name, nodeId, state: 'leaving', held: total });
    else await out.line(`${shown}: leaving, with ${countOf(total, 'partition')} to hand over`);
    return exitCodes.ok;
  }
  const start = performance.now();
  const state: Drain = { name, nodeId, total, held: total, waitsFor: [] };
  try {
    await untilLeft(session, looker, state);
  } catch (error) {
    const look = '`taskmaster members` shows how far it is';
    err.write(`${shown} goes on leaving, with ${leftOf(state)}; ${look}\n`);
    throw error;
  }
  const elapsedMs = performance.now() - start;
  if (out.json) await out.object({ name, nodeId, state: 'left', handedOver: total, seconds: elapsedMs / 1000 });
  else await out.line(`${shown}: left; ${countOf(total, 'partition')} handed over in ${duration(elapsedMs)}`);
  return exitCodes.ok;
}

async function untilLeft(session: Session, looker: Looker, state: Drain): Promise<void> {
  const { out, err, signal, timeoutMs } = session;
  const text = (): string => `${escapeControls(state.name)}: ${leftOf(state)}`;
  using _progress = out.json ? undefined : new Progress({ stream: err, line: text });
  const tellsLines = !out.json && err.isTTY !== true;
  let toldAt = Number.NEGATIVE_INFINITY;
  let heardAt = performance.now();
  for (let delayMs = FIRST_LOOK_MS; ; delayMs = Math.min(LOOKS_MS, delayMs * 2)) {
    const now = performance.now();
    if (tellsLines && now - toldAt >= LINE_EVERY_MS) {
      err.write(`${text()}\n`);
      toldAt = now;
    }
    const looked = await look(session, looker, state);
    if (looked === 'left') return;
    if (looked === 'leaving') {
      heardAt = performance.now();
    } else if (performance.now() - heardAt > timeoutMs) {
      throw looked;
    }
    await sleep(delayMs, undefined, { signal });
  }
}

/** Where the member is now, or why that cannot be told for the moment. */
async function look({ signal }: Session, looker: Looker, state: Drain): Promise<'left' | 'leaving' | TaskMasterError> {
  try {
    const { members } = await looker.members();
    const node = members.find((one): one is ClusterNode => one.role === 'node' && one.nodeId === state.nodeId);
    if (node?.removedBy !== undefined) {
      const message = `${state.name} was given up by ${node.removedBy} while it was leaving`;
      throw new CommandFailedError('MEMBER_LEFT', message, { hint: 'what it still held is lost' });
    }
    if (node === undefined || node.state === 'left') return 'left';
    state.held = node.partitionsHeld;
    state.waitsFor = members.filter(isAwaited).map((one) => one.name);
    return 'leaving';
  } catch (error) {
    if (signal.aborted || !isTaskMasterError(error) || !mayPass(error)) throw error;
    return error;
  }
}

/** Looks at the members, through another one when the endpoint is gone: it may be the one that leaves, and then ends. */
class Looker implements AsyncDisposable {
  readonly #session: Session;
  readonly #others: readonly string[];
  #other: TaskMasterClient | undefined;

  constructor(session: Session, others: readonly ClusterMember[]) {
    this.#session = session;
    this.#others = others.flatMap(({ alive, rpcAddress }) => (alive && rpcAddress !== undefined ? [rpcAddress] : []));
  }

  /** @throws what the endpoint said, when the others do not answer either. */
  async members(): Promise<ClusterMembers> {
    const { client, signal, timeoutMs } = this.#session;
    const timeout = Math.min(timeoutMs, LOOK_TIMEOUT_MS);
    if (this.#other !== undefined) return this.#other.cluster.members({ signal, timeout });
    try {
      return await client.cluster.members({ signal, timeout });
    } catch (error) {
      if (this.#others.length === 0 || !isTaskMasterError(error) || !mayPass(error)) throw error;
      return await this.#throughOther(timeout).catch(() => {
        throw error;
      });
    }
  }

  async #throughOther(timeout: number): Promise<ClusterMembers> {
    const { signal } = this.#session;
    const other = await connect({ endpoints: this.#others, connectTimeout: timeout }, { signal });
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

/** Dead, with partitions to come: those of one that leaves may be among them. */
const isAwaited = (member: ClusterMember): boolean =>
  member.role === 'node' &&
  member.state === 'active' &&
  !member.alive &&
  member.partitionsWanted > member.partitionsHeld;

function leftOf({ held, total, waitsFor }: Drain): string {
  const left = `${count(held)} of ${countOf(total, 'partition')} left`;
  if (waitsFor.length === 0) return left;
  return `${left}; waits for ${escapeControls(waitsFor.join(', '))} to be started, or given up`;
}
