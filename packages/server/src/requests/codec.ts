import type { MethodDefinition } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import {
  type CountedFields,
  type EntryBound,
  type encodeToBuffer,
  hasMoreEntries,
  limits,
  type Method,
} from '@taskmaster/proto';
import { refuse } from './checks.ts';

/** A generated message type. */
export type MessageType<T> = Parameters<typeof encodeToBuffer<T>>[0] & { decode(bytes: Uint8Array): T };

/**
 * A method whose messages reach the handler encoded. If grpc-js decoded them, an invalid message would fail with INTERNAL and
 * without a reason, and a waiting request would use several times its encoded size in memory.
 */
export function rawMethod(path: string, streaming: boolean): MethodDefinition<Buffer, Buffer> {
  const asIs = (bytes: Buffer): Buffer => bytes;
  return {
    path,
    requestStream: streaming,
    responseStream: streaming,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
}

/** Decodes a request. Its byte fields are views of `bytes`. Throws a `Refusal` if that fails. */
export function decodeRequest<T>(type: MessageType<T>, bytes: Buffer, bounds: readonly EntryBound[] = []): T {
  if (bytes.length > limits.requestBytes) throw requestTooLarge(bytes.length);
  checkEntries(bytes, bounds);
  return readRequest(() => type.decode(bytes));
}

/** How the requests of a method are decoded. */
export type Decoded<Q> = Pick<Method<Q, unknown>, 'entries' | 'isExact' | 'requestDeserialize' | 'requestSerialize'>;

/** As `decodeRequest`, for a request of a method. */
export function decodeCall<Q>(method: Decoded<Q>, bytes: Buffer): Q {
  if (bytes.length > limits.requestBytes) throw requestTooLarge(bytes.length);
  if (method.entries !== undefined) checkEntries(bytes, method.entries);
  const request = readRequest(() => method.requestDeserialize(bytes));
  // The decoder leaves fields out that it does not know.
  if (method.isExact === true && method.requestSerialize(request).byteLength !== bytes.byteLength) {
    const problem = 'has fields that this release does not know, so it would do something else: upgrade the node';
    throw new Refusal('MALFORMED_REQUEST', `the request ${problem}`);
  }
  return request;
}

/** Throws a `Refusal` if an encoded request has too many entries. */
export function checkEntries(bytes: Buffer, bounds: readonly EntryBound[]): void {
  for (const { field, counted, most } of bounds) {
    if (!exceeds(bytes, counted, most)) continue;
    refuse('TOO_MANY_ITEMS', { field }, `has more than ${most} items`, { limit: most });
  }
}

function exceeds(bytes: Buffer, counted: CountedFields, most: number): boolean {
  try {
    return hasMoreEntries(bytes, counted, most);
  } catch {
    return false; // damaged: the decoder reports it
  }
}

/** Reads a request, or a part of it. Throws a `Refusal` if `read` throws. */
export function readRequest<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw unreadable(error);
  }
}

/** The refusal of a request that is too large. `bytes`: its size; undefined if it is unknown. */
export function requestTooLarge(bytes: number | undefined): Refusal {
  const limit = String(limits.requestBytes);
  return new Refusal('REQUEST_TOO_LARGE', `the request has ${bytes ?? 'too many'} bytes: at most ${limit}`, {
    metadata: { ...(bytes !== undefined && { value: String(bytes) }), limit },
  });
}

/** Matches the error of the decoder for a well-formed 64-bit number that it cannot hold. It exceeds every limit too. */
const OUT_OF_RANGE = /_SAFE_INTEGER/;

function unreadable(error: unknown): Refusal {
  const problem = error instanceof Error ? error.message : String(error);
  return OUT_OF_RANGE.test(problem)
    ? new Refusal('INVALID_ARGUMENT', 'a number in the request is beyond 2^53', {
        metadata: { max: String(Number.MAX_SAFE_INTEGER) },
      })
    : new Refusal('MALFORMED_REQUEST', `the request is not the protobuf message it should be: ${problem}`);
}
