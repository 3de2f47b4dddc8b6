import { limits } from '@taskmaster/proto';
import type { LeaseRef } from '../../tasks/update.ts';
import type { Pid } from '../../values/pid.ts';
import { UsageError } from '../output/cli-errors.ts';
import type { Shell } from '../shell.ts';
import { leaseToken, payload, pid, queueName } from './arguments.ts';
import { openInput, readLines } from './read-input.ts';

/** A task that is to be completed, renewed or released. */
export interface TaskRef extends LeaseRef {
  readonly queue: string;
  readonly pid: Pid;
  /** Known only of tasks that were read from `lease --json`. */
  readonly data: Buffer | undefined;
}

/** Tasks as the command line names them, or as `--task` reads them, one by one. */
export interface RefSource {
  readonly queue: string | undefined;
  readonly pids: readonly string[];
  readonly token: number | undefined;
  /** A file, or `-`. */
  readonly file: string | undefined;
}

/** A line may hold a payload in base64 and what else a task has. */
const LINE_BYTES = 2 * limits.dataBytes;

/** @throws UsageError when tasks are named in no way or in two. */
export function assertRefSource({ queue, pids, token, file }: RefSource): void {
  if (file !== undefined) {
    if (queue !== undefined) throw new UsageError('give QUEUE PID or --task, not both');
    if (token !== undefined) throw new UsageError('--token goes with QUEUE PID; the lines of --task have their own');
    return;
  }
  if (queue === undefined || pids.length === 0)
    throw new UsageError('give QUEUE PID, or --task and what `lease --json` printed');
  if (token !== undefined && pids.length > 1) throw new UsageError('--token is of one task; give one PID');
}

export async function* taskRefs({ queue, pids, token, file }: RefSource, shell: Shell): AsyncGenerator<TaskRef, void> {
  if (file === undefined) {
    for (const text of pids) yield { queue: queue ?? '', pid: pid(text), leaseToken: token, data: undefined };
    return;
  }
  const input = await openInput(file, shell);
  for await (const { bytes, number } of readLines(input, { maxBytes: LINE_BYTES })) {
    if (bytes.byteLength > 0) yield refOf(bytes, `${input.name}: line ${number}`);
  }
}

function refOf(line: Buffer, where: string): TaskRef {
  let value: unknown;
  try {
    value = JSON.parse(line.toString('utf8'));
  } catch {
    throw new UsageError(`${where} is not JSON; --task reads what \`taskmaster lease --json\` prints`);
  }
  const fields = (typeof value === 'object' && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
  const { queue, pid: of, token, data } = fields;
  if (typeof queue !== 'string' || typeof of !== 'string') throw new UsageError(`${where} has no "queue" or no "pid"`);
  if (typeof token !== 'number') throw new UsageError(`${where} has no "token": only leased tasks have one`);
  try {
    return {
      queue: queueName(queue),
      pid: pid(of),
      leaseToken: leaseToken(String(token)),
      data: typeof data === 'string' ? payload(data) : undefined,
    };
  } catch (error) {
    throw new UsageError(`${where}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
