import type { MethodDefinition } from '@grpc/grpc-js';
import { decodeWhole, type encodeToBuffer, limits } from '@taskmaster/proto';
import { Refusal } from '../../domain/refusal.ts';
import { checkEntries, type EntryBound } from './entry-bounds.ts';

/** A generated message. */
export type MessageType<T> = Parameters<typeof encodeToBuffer<T>>[0] & Parameters<typeof decodeWhole<T>>[0];

/**
 * A method whose messages reach the handler as bytes. What grpc-js decodes itself fails with INTERNAL and no reason, and
 * stays in memory decoded, several times its size, while it waits to be handled.
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

/** Reads a request, whose byte fields are views of `bytes`. Throws a `Refusal` where that is not possible. */
export function decodeRequest<T>(type: MessageType<T>, bytes: Buffer, bounds: readonly EntryBound[] = []): T {
  if (bytes.length > limits.requestBytes) throw requestTooLarge(bytes.length);
  checkEntries(bytes, bounds);
  try {
    return decodeWhole(type, bytes);
  } catch (error) {
    throw unreadable(error);
  }
}

/** `bytes`: how many it has; undefined where only so much is known that they are too many. */
export function requestTooLarge(bytes: number | undefined): Refusal {
  const limit = String(limits.requestBytes);
  return new Refusal('REQUEST_TOO_LARGE', `the request has ${bytes ?? 'too many'} bytes: at most ${limit}`, {
    metadata: { ...(bytes !== undefined && { value: String(bytes) }), limit },
  });
}

/** A number of 64 bits can be well-formed and yet beyond every limit here, and beyond what the decoder can hold. */
const OUT_OF_RANGE = /_SAFE_INTEGER/;

function unreadable(error: unknown): Refusal {
  const problem = error instanceof Error ? error.message : String(error);
  return OUT_OF_RANGE.test(problem)
    ? new Refusal('INVALID_ARGUMENT', 'a number in the request is beyond 2^53', {
        metadata: { max: String(Number.MAX_SAFE_INTEGER) },
      })
    : new Refusal('MALFORMED_REQUEST', `the request is not the protobuf message it should be: ${problem}`);
}
