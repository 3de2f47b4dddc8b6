import { type BackupPartitionRequest, type BackupPartitionResponse, methods } from '@taskmaster/proto';
import type { Timing } from '../transport/timing.ts';
import type { Transport, TransportCallOptions } from '../transport/transport.ts';
import { asTaskMasterError, brokenReply } from '../transport/wire-errors.ts';
import { makeError, withMaybeApplied } from '../values/errors.ts';
import type { CallOptions } from '../values/options.ts';
import type { RetryingCalls } from './retrying-calls.ts';

/** One part of a backup, as in backup.proto: `$case` is `header`, `rows`, `atoms` or `end`. */
export type BackupPart = NonNullable<BackupPartitionResponse['part']>;

interface Begun {
  readonly parts: AsyncIterator<BackupPartitionResponse, undefined>;
  readonly first: IteratorResult<BackupPartitionResponse, undefined>;
}

/** The parts of a backup. Attempts are repeated until the first part has come. Rejects with a `TaskMasterError`. */
export async function* backupParts(
  calls: RetryingCalls,
  timing: Timing,
  request: BackupPartitionRequest,
  options: CallOptions,
): AsyncGenerator<BackupPart, undefined> {
  const { parts, first } = await calls.run(
    methods.backupPartition.key,
    methods.backupPartition.repetition,
    options,
    (attempt) => begin(calls.transport, timing, request, attempt),
  );
  try {
    let last: BackupPart | undefined;
    for (let next = first; !next.done; next = await parts.next()) {
      last = next.value.part;
      if (last === undefined) throw brokenReply('sent a part of a backup that this release does not know');
      yield last;
    }
    if (last?.$case !== 'end') throw brokenReply('ended a backup before its end');
  } catch (thrown) {
    throw withMaybeApplied(asTaskMasterError(thrown), false);
  } finally {
    await parts.return?.();
  }
}

/** Resolves with the first part. Without one in time the call is given up. */
async function begin(
  transport: Transport,
  timing: Timing,
  request: BackupPartitionRequest,
  { signal, timeoutMs }: TransportCallOptions,
): Promise<Begun> {
  const late = new AbortController();
  const parts = transport.stream(methods.backupPartition, request, {
    signal: signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]),
  });
  const cancelTimer = timeoutMs === undefined ? undefined : timing.after(timeoutMs, () => late.abort(), true);
  try {
    return { parts, first: await parts.next() };
  } catch (cause) {
    if (!late.signal.aborted || signal?.aborted) throw cause;
    throw makeError(`no answer within ${timeoutMs} ms`, { reason: 'DEADLINE_EXCEEDED', cause });
  } finally {
    cancelTimer?.();
  }
}
