import { isUtf8 } from 'node:buffer';
import type { LeaseRef, Pid, TaskHeaders, TaskName } from '@taskmaster/client';
import { nameFields } from '@taskmaster/client/internal';
import { limits } from '@taskmaster/proto';
import { UsageError } from '../views/cli-errors.ts';
import type { Shell } from '../views/output.ts';
import { leaseToken, payload, pid, queueName } from './arguments.ts';
import { openInput, readLines } from './read-input.ts';

/** A task to complete, renew, release, cancel or reschedule. */
export interface TaskRef extends LeaseRef {
  readonly queue: string;
  /** Empty if it is named by its key. */
  readonly pid: Pid;
  readonly name: TaskName;
  /** The payload, if the task was read from a line of `lease --json`. */
  readonly data: Buffer | undefined;
  /** Its headers, likewise. */
  readonly headers?: TaskHeaders | undefined;
}

/** Tasks that the command line names, or that `--task` reads. */
export interface RefSource {
  readonly queue: string | undefined;
  readonly names: readonly TaskName[];
  readonly leaseToken: number | undefined;
  /** Without lease tokens, so also tasks that other workers have leased. */
  readonly force: boolean;
  /** A file, or `-`. */
  readonly file: string | undefined;
}

/** Longest line: a payload in base64 and the other fields of a task. */
const LINE_BYTES = 2 * limits.dataBytes;

/** @throws UsageError unless tasks are named in one way, with lease tokens or with --force. */
export function assertRefSource({ queue, names, leaseToken, force, file }: RefSource): void {
  if (file !== undefined) {
    if (queue !== undefined) throw new UsageError('give QUEUE PID or --task, not both');
    if (leaseToken !== undefined) {
      throw new UsageError('--lease-token goes with QUEUE PID; the lines of --task have lease tokens');
    }
    if (force) throw new UsageError('--force goes with QUEUE PID; the lines of --task have lease tokens');
    return;
  }
  if (queue === undefined || names.length === 0)
    throw new UsageError('give QUEUE PID, or --task with the output of `lease --json`');
  if (leaseToken === undefined) {
    if (!force) throw new UsageError(names.length === 1 ? TOKEN_MISSING : TOKENS_MISSING);
    return;
  }
  if (force) throw new UsageError('give --lease-token or --force, not both');
  if (names.length > 1) throw new UsageError('--lease-token is for one task; give one PID, or use --task');
}

const FORCE = '--force if it does not matter that another worker may have leased';
const TOKEN_MISSING = `--lease-token is missing; give it as \`taskmaster lease\` shows it, or ${FORCE} the task`;
const TOKENS_MISSING = `lease tokens are missing; give --task with the output of \`lease --json\`, or ${FORCE} the tasks`;

export async function* taskRefs(
  { queue, names, leaseToken: token, file }: RefSource,
  shell: Shell,
): AsyncGenerator<TaskRef, void> {
  if (file === undefined) {
    for (const name of names) {
      const { pid: of } = nameFields(name);
      yield { queue: queue ?? '', pid: of, name, leaseToken: token, data: undefined };
    }
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
    // Decoding turns different invalid bytes into the same text, and another task would be meant.
    if (!isUtf8(line)) throw new TypeError('it is not UTF-8');
    value = JSON.parse(line.toString('utf8'));
  } catch {
    throw new UsageError(`${where} is not JSON; --task reads what \`taskmaster lease --json\` prints`);
  }
  const fields = (typeof value === 'object' && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
  const { queue, pid: of, leaseToken: token, data, headers } = fields;
  if (typeof queue !== 'string' || typeof of !== 'string') throw new UsageError(`${where} has no "queue" or no "pid"`);
  if (typeof token !== 'number') throw new UsageError(`${where} has no "leaseToken": only leased tasks have one`);
  try {
    return {
      queue: queueName(queue),
      pid: pid(of),
      name: pid(of),
      leaseToken: leaseToken(String(token)),
      data: typeof data === 'string' ? payload(data) : undefined,
      // The client refuses what is no text.
      headers: typeof headers === 'object' && headers !== null ? (headers as TaskHeaders) : undefined,
    };
  } catch (error) {
    throw new UsageError(`${where}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
