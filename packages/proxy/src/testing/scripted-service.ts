import { byMethodName, taskMethodKeys } from '@taskmaster/proto';
import type { RawService, StreamSession, UnaryHandler } from '@taskmaster/server/calls';

/** The service of a node whose answers a test chooses. */
export function scriptedService(serve: UnaryHandler, openStream: () => StreamSession = refuseStream): RawService {
  return { unary: byMethodName(taskMethodKeys, () => serve), openStream };
}

function refuseStream(): never {
  throw new TypeError('the test expects no stream');
}
