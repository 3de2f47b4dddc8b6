import type { ServiceError } from '@grpc/grpc-js';
import { CancelledError, cancelled } from '../values/errors.ts';
import type { Connection } from './connection.ts';
import { errorOfCall } from './wire-errors.ts';

/** The parts of a generated method definition that a call with a streamed answer needs. */
export interface StreamingMethod<Request, Reply> {
  readonly path: string;
  readonly requestSerialize: (request: Request) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => Reply;
}

/** Makes a call with a streamed answer. Messages are read as they are asked for. `return` gives the call up. */
export async function* answerStream<Request, Reply>(
  connection: Connection,
  method: StreamingMethod<Request, Reply>,
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
