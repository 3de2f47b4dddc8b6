import { Refusal } from '@taskmaster/engine/domain';
import {
  encodeToBuffer,
  fieldBytes,
  type LeaseTasksRequest,
  limits,
  methods,
  type UpdateTasksRequest,
  Error as WireErrorType,
} from '@taskmaster/proto';
import { countRequests, REPLY_BYTES, refusalOf, toWireError } from '@taskmaster/server/calls';
import { type Decoded, decodeCall } from '@taskmaster/server/requests';
import { readEntries, withNumbers, writeEntries, writeField } from '../upstream/raw-codec.ts';
import { giveBack } from './leasing/give-back.ts';
import { leaseTasks } from './leasing/leases.ts';
import type { RoutedCaller, Router } from './routing/router.ts';
import { routeOf, updateTasks } from './updates.ts';

/** Numbers of the fields of UpdateResult and LeaseResult. */
const RESPONSE_FIELD = 1;
const ERROR_FIELD = 2;
/** Number of the field `max_bytes` of LeaseTasksRequest. */
const MAX_BYTES_FIELD = 7;
/** Size limit of the lists of items at fault in one reply, over all its errors, in bytes. */
const BATCH_ITEMS_BYTES = 1024 * 1024;

/** Answers BatchUpdateTasks: sends each update to the holder of its group. */
export async function batchUpdate(router: Router, bytes: Buffer, caller: RoutedCaller): Promise<Uint8Array> {
  const requests = requestsOf(methods.batchUpdateTasks, bytes);
  if (requests.length === 0) return refusedByAny(router, 'BatchUpdateTasks', bytes, caller);
  countRequests(caller, requests.length - 1);
  const update = async ({ encoded, request }: Entry<UpdateTasksRequest>): Promise<Uint8Array> => {
    try {
      return writeField(RESPONSE_FIELD, await updateTasks(router, encoded, routeOf(request), caller));
    } catch (thrown) {
      return errorEntry(router, requests.length, thrown, caller);
    }
  };
  return writeEntries(await Promise.all(requests.map(update)));
}

/** Answers BatchLeaseTasks: sends each lease to the holders of its queues. The leases share the size of one reply. */
export async function batchLease(router: Router, bytes: Buffer, caller: RoutedCaller): Promise<Uint8Array> {
  const requests = requestsOf(methods.batchLeaseTasks, bytes);
  if (requests.length === 0) return refusedByAny(router, 'BatchLeaseTasks', bytes, caller);
  countRequests(caller, requests.length - 1);
  const share = Math.floor(limits.replyDataBytes / requests.length);
  const lease = async (entry: Entry<LeaseTasksRequest>): Promise<Uint8Array | Error> => {
    try {
      return await leaseTasks(router, withShare(entry, share), caller);
    } catch (thrown) {
      return thrown instanceof Error ? thrown : new TypeError(String(thrown));
    }
  };
  const outcomes = await Promise.all(requests.map(lease));

  let left = REPLY_BYTES;
  const results = outcomes.map((outcome) => {
    if (!(outcome instanceof Uint8Array)) return errorEntry(router, requests.length, outcome, caller);
    const { fitting, tooMany, bytes: used } = fittingTasks(outcome, left);
    if (tooMany.length > 0) giveBack(router, tooMany);
    if (fitting.length === 0 && tooMany.length > 0) return errorEntry(router, requests.length, replyFull(), caller);
    left -= used;
    return writeField(RESPONSE_FIELD, tooMany.length === 0 ? outcome : writeEntries(fitting));
  });
  return writeEntries(results);
}

/** A request of a batch. */
interface Entry<Q> {
  readonly encoded: Uint8Array;
  readonly request: Q;
}

/**
 * Returns the requests of a batch. Throws the refusal of an invalid batch here: one invalid request would end a shared stream.
 */
function requestsOf<Q>(method: Decoded<{ requests: Q[] }>, bytes: Buffer): readonly Entry<Q>[] {
  const { requests } = decodeCall(method, bytes);
  const encoded = readEntries(bytes);
  return requests.map((request, index) => {
    const entry = encoded[index];
    if (entry === undefined) throw new TypeError('a batch was read as two different messages');
    return { encoded: entry, request };
  });
}

/** Sends an empty batch to any node, which refuses it. */
function refusedByAny(
  router: Router,
  method: 'BatchUpdateTasks' | 'BatchLeaseTasks',
  bytes: Buffer,
  caller: RoutedCaller,
): Promise<Uint8Array> {
  return router.toAnyNode({ method, request: () => bytes, repetition: 'unsafe' }, caller);
}

/** Limits a lease to its share of the reply. A limit that is out of range stays, so that the lease is refused for it. */
function withShare({ encoded, request }: Entry<LeaseTasksRequest>, share: number): Uint8Array {
  const { maxBytes } = request;
  const isOpen = maxBytes === 0 || (maxBytes > share && maxBytes <= limits.replyDataBytes);
  return isOpen ? withNumbers(encoded, { [MAX_BYTES_FIELD]: share }) : encoded;
}

function fittingTasks(reply: Uint8Array, room: number) {
  const tasks = readEntries(reply);
  let bytes = 0;
  const cut = tasks.findIndex((task) => {
    const more = fieldBytes(task.length);
    if (bytes + more > room) return true;
    bytes += more;
    return false;
  });
  return cut < 0
    ? { fitting: tasks, tooMany: [], bytes }
    : { fitting: tasks.slice(0, cut), tooMany: tasks.slice(cut), bytes };
}

function errorEntry(router: Router, requests: number, thrown: unknown, caller: RoutedCaller): Uint8Array {
  const refusal = refusalOf(thrown, router.log);
  caller.requestRefused?.(refusal);
  const error = toWireError(refusal, BATCH_ITEMS_BYTES / requests);
  return writeField(ERROR_FIELD, encodeToBuffer(WireErrorType, error));
}

function replyFull(): Refusal {
  return new Refusal('OVERLOADED', 'the tasks of earlier leases of the batch fill the reply', {
    retryDelayMs: 1,
    metadata: { limit: String(REPLY_BYTES) },
  });
}
