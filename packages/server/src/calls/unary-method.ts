import type { Method } from '@taskmaster/proto';
import { readRequest } from '../requests/codec.ts';
import type { UnaryCaller, UnaryHandler } from './raw-service.ts';

/** Handler of one unary method: decodes the request and encodes the answer. For services with few and small calls. */
export function unaryMethod<Q, R>(
  method: Pick<Method<Q, R>, 'requestDeserialize' | 'responseSerialize'>,
  answer: (request: Q, caller: UnaryCaller) => Promise<R>,
): UnaryHandler {
  return async (bytes, caller) => {
    const request = readRequest(() => method.requestDeserialize(bytes));
    return method.responseSerialize(await answer(request, caller));
  };
}
