import { type Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { CancelledError, cancelled } from '../values/errors.ts';
import type { Connection } from './connection.ts';
import type { TransportCallOptions } from './transport.ts';
import { brokenReply, errorOfCall, unencodable } from './wire-errors.ts';

/** The parts of a generated method definition that a call needs. */
export interface SentMethod<Request, Reply> {
  readonly path: string;
  readonly requestSerialize: (request: Request) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => Reply;
}

/** Makes a unary call. Tasks that are leased while the call is cancelled are available when their leases end. */
export function unaryCall<Request, Reply>(
  connection: Connection,
  method: SentMethod<Request, Reply>,
  request: Request,
  { signal, timeoutMs, traceparent }: TransportCallOptions,
  extraMs: number,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    let requestBytes: Buffer;
    try {
      requestBytes = method.requestSerialize(request);
    } catch (cause) {
      reject(unencodable(cause));
      return;
    }
    // Throws before the call begins if the token cannot be read.
    const metadata = traceparent === undefined ? connection.metadata : traced(connection.metadata, traceparent);
    let isClosed = false;
    const settled = connection.began((why) => {
      isClosed = why === 'closed';
      call.cancel();
    });
    // Only calls that wait have extra time.
    if (extraMs === 0) connection.watch.sent(timeoutMs);
    const call = connection.client.makeUnaryRequest(
      method.path,
      (bytes: Buffer) => bytes,
      method.responseDeserialize,
      requestBytes,
      metadata,
      timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs + extraMs },
      (failure: ServiceError | null, reply?: Reply) => {
        signal?.removeEventListener('abort', onAbort);
        settled();
        if (failure === null || failure.code !== status.DEADLINE_EXCEEDED) connection.watch.heard();
        if (failure === null && reply !== undefined) {
          resolve(reply);
          return;
        }
        const error = failure === null ? brokenReply('sent no reply') : errorOfCall(failure);
        if (isClosed) {
          reject(new CancelledError('the client is closed', { reason: 'CANCELLED', maybeApplied: true, cause: error }));
          return;
        }
        connection.failed(error);
        reject(signal?.aborted ? cancelled(signal, error) : error);
      },
    );
    // In the turn of the call itself grpc-js would not tell the server of the cancellation.
    const onAbort = (): void => void setImmediate(() => call.cancel());
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

function traced(metadata: Metadata, traceparent: string): Metadata {
  const own = metadata.clone();
  own.set('traceparent', traceparent);
  return own;
}

/** Makes a call with a streamed answer. Messages are read as they are asked for. `return` gives the call up. */
export async function* answerStream<Request, Reply>(
  connection: Connection,
  method: SentMethod<Request, Reply>,
  request: Request,
  signal: AbortSignal | undefined,
): AsyncGenerator<Reply, undefined> {
  // Throws before the call begins if the token cannot be read.
  const { metadata } = connection;
  let isClosed = false;
  const settled = connection.began((why) => {
    isClosed = why === 'closed';
    call.cancel();
  });
  const call = connection.client.makeServerStreamRequest(
    method.path,
    method.requestSerialize,
    method.responseDeserialize,
    request,
    metadata,
  );
  // In the turn of the call itself grpc-js would not tell the server of the cancellation.
  const onAbort = (): void => void setImmediate(() => call.cancel());
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    yield* call;
  } catch (thrown) {
    const error = errorOfCall(thrown as ServiceError);
    if (isClosed) throw new CancelledError('the client is closed', { reason: 'CANCELLED', cause: error });
    connection.failed(error);
    throw signal?.aborted ? cancelled(signal, error) : error;
  } finally {
    signal?.removeEventListener('abort', onAbort);
    settled();
    // Has no effect on a call that is over.
    call.cancel();
  }
}
