import { createHash } from 'node:crypto';
import { type Enqueue, EnqueueMode, parseQueueName } from '@taskmaster/proto';
import { decodeEnqueues, encodeEnqueues } from '../calls/update-request.ts';
import type { ClientContext } from '../tasks/context.ts';
import { FORMAT, type NewTask, type QueueRef } from '../tasks/new-task.ts';
import { bytesCodec } from '../values/codec.ts';
import { InvalidRequestError } from '../values/errors.ts';
import { type Handler, UnrecoverableError } from '../worker/worker-options.ts';

const REQUEST_ID_BYTES = 16;

/** The queue of a step: its data is what it sends, as a message of the protocol. */
export const stepQueue = (name: string): QueueRef<Uint8Array> => ({
  name,
  [FORMAT]: { codec: bytesCodec, schema: undefined },
});

/**
 * What a step sends, as the data of its task: one update with a request id of its own. So each run of the step sends the same.
 * @param id of the step, unique among all flows. PIDs that are made of it sort as those of the node do
 * @throws TypeError if there is nothing; InvalidRequestError (MIXED_GROUPS) for several groups; as `Update.commit`
 */
export async function stepData(send: readonly NewTask[], id: string): Promise<Uint8Array> {
  if (send.length === 0) throw new TypeError('flow: a step sends at least one task or signal');
  const items = await Promise.all(send.map((task) => task.prepare()));
  const groups = new Set(items.map(({ queue, topic }) => parseQueueName(topic === '' ? queue : topic).group));
  if (groups.size > 1) {
    const metadata = { groups: [...groups].join() };
    throw new InvalidRequestError('all that a step sends must be of one group', { reason: 'MIXED_GROUPS', metadata });
  }
  const requestId = createHash('sha256').update(id).digest().subarray(0, REQUEST_ID_BYTES);
  const enqueue = items.map((item, at) => named(item, `${id}-${at}`));
  return encodeEnqueues(enqueue, requestId);
}

/** The item with a name under which it counts once, also after the node has forgotten the request id. */
function named(item: Enqueue, id: string): Enqueue {
  if (item.mode === EnqueueMode.ENQUEUE_MODE_SIGNAL) return item.signalId ? item : { ...item, signalId: id };
  return item.pid.byteLength > 0 || item.key !== '' ? item : { ...item, pid: Buffer.from(id) };
}

/** See `TaskMasterClient.stepHandler`. */
export function stepHandler(context: ClientContext): Handler<Uint8Array> {
  return async ({ bytes, signal }) => {
    // It only enqueues: what could enqueue the step must not remove tasks with the rights of this worker.
    const request = requestIn(bytes);
    await context.telemetry.send(request, { requestId: request.requestId, signal });
  };
}

function requestIn(bytes: Uint8Array): ReturnType<typeof decodeEnqueues> {
  try {
    const request = decodeEnqueues(bytes);
    if (request.enqueue.length > 0 && request.requestId.byteLength === REQUEST_ID_BYTES) return request;
  } catch (cause) {
    throw new UnrecoverableError('the task is no step of a flow', { cause });
  }
  throw new UnrecoverableError('the task is no step of a flow');
}
