import { type Metadata, type StatusObject, status } from '@grpc/grpc-js';
import {
  type CallPipe,
  type CallPipeListener,
  type TaskMasterServiceClient,
  TaskMasterServiceService,
} from '@taskmaster/proto';
import { type TaskMasterError, UnavailableError } from '../values/errors.ts';
import { errorFromService } from './wire-errors.ts';

/** A stream that can be given up as if the network had broken it. */
export interface BreakablePipe extends CallPipe {
  /** The listener is told, and the calls of the stream have failed. */
  break(): void;
}

/** Opens the bidirectional stream of a channel. Messages are encoded. */
export function openStreamPipe(
  client: TaskMasterServiceClient,
  metadata: Metadata,
  listener: CallPipeListener<TaskMasterError>,
): BreakablePipe {
  const call = client.makeBidiStreamRequest(
    TaskMasterServiceService.stream.path,
    (message: Buffer) => message,
    (bytes: Buffer) => bytes,
    metadata,
  );
  let over = false;
  const end = (error: TaskMasterError): void => {
    if (over) return;
    over = true;
    listener.onEnd(error);
  };
  call.on('data', (message: Buffer) => listener.onMessage(message));
  call.on('drain', () => listener.onDrain());
  call.on('error', (error: Error & StatusObject) => end(errorFromService(error)));
  call.on('status', (ended: StatusObject) => {
    // A node that shuts down ends its streams without an error. Unanswered calls may have been applied.
    if (ended.code === status.OK) end(new UnavailableError('the node ended the stream', { reason: 'SHUTTING_DOWN' }));
  });
  return {
    write: (message) => call.write(message),
    end() {
      over = true;
      call.end();
    },
    break: () => call.cancel(),
    abort() {
      over = true;
      call.end();
      call.cancel();
    },
  };
}
