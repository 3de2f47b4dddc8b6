import { type ServiceError, status } from '@grpc/grpc-js';
import { wireErrorOf } from '@taskmaster/proto';
import { CancelledError, cancelled, InvalidRequestError, makeError, type TaskMasterError } from '../values/errors.ts';
import type { Connection } from './connection.ts';
import type { TransportCallOptions } from './transport.ts';
import { brokenReply, errorFromService } from './wire-errors.ts';

/** Just the parts of a generated method definition that a unary call needs. */
export interface UnaryMethod<Request, Reply> {
  readonly path: string;
  readonly requestSerialize: (request: Request) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => Reply;
}

/** One call of its own. A lease that is given up is cancelled: what it was leased at that moment comes back when it ends. */
export function unaryCall<Request, Reply>(
  connection: Connection,
  method: UnaryMethod<Request, Reply>,
  request: Request,
  { signal, timeoutMs }: TransportCallOptions,
  extraMs: number,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    let requestBytes: Buffer;
    try {
      requestBytes = method.requestSerialize(request);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      reject(new InvalidRequestError(`the request cannot be encoded: ${why}`, { reason: 'INVALID_ARGUMENT', cause }));
      return;
    }
    let isClosed = false;
    const settled = connection.began(() => {
      isClosed = true;
      call.cancel();
    });
    const call = connection.client.makeUnaryRequest(
      method.path,
      (bytes: Buffer) => bytes,
      method.responseDeserialize,
      requestBytes,
      connection.metadata,
      timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs + extraMs },
      (failure: ServiceError | null, reply?: Reply) => {
        signal?.removeEventListener('abort', onAbort);
        settled();
        if (failure === null && reply !== undefined) {
          resolve(reply);
          return;
        }
        const error = failure === null ? brokenReply('sent no reply') : failureOf(failure);
        if (isClosed) {
          reject(new CancelledError('the client is closed', { reason: 'CANCELLED', maybeApplied: true, cause: error }));
          return;
        }
        connection.failed(error);
        reject(signal?.aborted ? cancelled(signal, error) : error);
      },
    );
    // grpc-js tells the server of it only if that is not in the turn in which the call was made.
    const onAbort = (): void => void setImmediate(() => call.cancel());
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** A server that ends without waiting for its calls cancels them, which is no wish of the caller's. */
function failureOf(failure: ServiceError): TaskMasterError {
  const error = errorFromService(failure);
  if (failure.code !== status.CANCELLED || wireErrorOf(failure) !== undefined) return error;
  const message = `the call was cut off: ${error.message}`;
  return makeError(message, { reason: 'UNAVAILABLE', retryable: true, maybeApplied: true, cause: failure });
}
