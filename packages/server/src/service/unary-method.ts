import { readRequest } from './parse/codec.ts';
import type { UnaryCaller, UnaryHandler } from './raw-service.ts';

/** A method definition as ts-proto generates it. */
export interface Method<Q, R> {
  readonly requestDeserialize: (bytes: Buffer) => Q;
  readonly responseSerialize: (answer: R) => Buffer;
}

/** Handler of one unary method: decodes the request and encodes the answer. For services with few and small calls. */
export function unaryMethod<Q, R>(
  method: Method<Q, R>,
  answer: (request: Q, caller: UnaryCaller) => Promise<R>,
): UnaryHandler {
  return async (bytes, caller) => {
    const request = readRequest(() => method.requestDeserialize(bytes));
    return method.responseSerialize(await answer(request, caller));
  };
}
