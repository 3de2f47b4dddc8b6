import { type Enqueue, EnqueueMode, NO_ENTRIES, type TaskSignal as WireSignal } from '@taskmaster/proto';
import { brokenReply } from '../transport/wire-errors.ts';
import { type Codec, jsonCodec } from '../values/codec.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { CallOptions } from '../values/options.ts';
import { callNames } from '../values/options.ts';
import type { Pid } from '../values/pid.ts';
import { someText } from '../values/some-text.ts';
import { nameFields, type TaskName } from '../values/task-name.ts';
import type { ClientContext } from './context.ts';
import { givenMessage } from './given-fields.ts';
import { NewTask, type QueueRef, queueRef } from './new-task.ts';
import { getInfo } from './task-info.ts';
import { encodeResult, readResult } from './task-result.ts';

export interface SignalOptions {
  /** A task counts signals with the same id once. 1 to 256 bytes of UTF-8. Default: none, so that every signal counts. */
  readonly id?: string | undefined;
  /** What the task gets with `task.signals()`, at most 64 KiB when it is encoded. Default: nothing. */
  readonly data?: unknown;
  /** How the data is encoded. Default: JSON. */
  readonly codec?: Codec<unknown> | undefined;
}

/** A signal that a task has got and that says something. */
export interface ReceivedSignal<R = unknown> {
  /** The id that it came with. Undefined: none, or it is the end of a child. */
  readonly id: string | undefined;
  /** Set: it is the end of this child. */
  readonly child: { readonly queue: string; readonly pid: Pid; readonly completed: boolean } | undefined;
  /** Its data, or the result of the child. Undefined: none. */
  readonly data: R | undefined;
}

export interface ReadSignalsOptions<R = unknown> extends CallOptions {
  /** How the data is encoded. Default: JSON. */
  readonly codec?: Codec<R> | undefined;
}

const signalNames: OptionNames<SignalOptions> = { id: true, data: true, codec: true };
const readNames: OptionNames<ReadSignalsOptions> = { ...callNames, codec: true };

/** A signal as an item of an update. @throws InvalidDataError if its data cannot be encoded; TypeError */
export function newSignal(queue: string | QueueRef, task: TaskName, options: SignalOptions = {}): NewTask {
  assertKnown('signal', options, signalNames);
  const { name } = queueRef(queue);
  const { pid, key = '' } = nameFields(task);
  const { id, data, codec = jsonCodec } = options;
  const item: Enqueue = {
    ...givenMessage({}),
    queue: name,
    topic: '',
    pid,
    mode: EnqueueMode.ENQUEUE_MODE_SIGNAL,
    delayMs: 0,
    runAtUnixMs: 0,
    retry: undefined,
    key,
    headers: NO_ENTRIES,
    signalId: someText('id', id),
    data: encodeResult(data, codec, 'the data of the signal cannot be encoded'),
  };
  return new NewTask(name, () => item);
}

/** The signals that a task has got. */
export async function readSignals<R>(
  context: ClientContext,
  queue: string,
  task: TaskName,
  options: ReadSignalsOptions<R>,
): Promise<readonly ReceivedSignal<R>[]> {
  assertKnown('signals', options, readNames);
  const { pid, key = '' } = nameFields(task);
  const info = await getInfo(context, { queue, pid, key }, false, options);
  if (info === undefined) throw brokenReply('left out the task');
  return receivedSignals(info.signals, options);
}

/** Signals in a reply. @throws InvalidDataError if data cannot be decoded. */
export function receivedSignals<R>(
  signals: readonly WireSignal[],
  options: ReadSignalsOptions<R>,
): readonly ReceivedSignal<R>[] {
  assertKnown('signals', options, readNames);
  const { codec = jsonCodec as Codec<R> } = options;
  return signals.map((signal) => received(signal, codec));
}

function received<R>({ id, queue, pid, completed, data }: WireSignal, codec: Codec<R>): ReceivedSignal<R> {
  const child = queue === '' ? undefined : { queue, pid: Buffer.from(pid), completed };
  return { id: id === '' ? undefined : id, child, data: readResult(data, codec) };
}
