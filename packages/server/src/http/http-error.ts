import { status as Status } from '@grpc/grpc-js';
import type { Error as WireError } from '@taskmaster/proto';
import { errorReply, httpStatus, jsonReply, type Reply } from './reply.ts';

/** A refusal by HTTP itself, before a route or a method sees the request. */
export interface HttpError {
  readonly status: number;
  /** For programs. */
  readonly reason: string;
  readonly message: string;
  readonly headers?: Reply['headers'];
}

/** As a page or a path under `/api` answers it. */
export const pageError = ({ status, reason, message, headers }: HttpError): Reply =>
  errorReply(status, reason, message, headers);

const codes: Readonly<Record<number, keyof typeof Status>> = {
  403: 'PERMISSION_DENIED',
  404: 'UNIMPLEMENTED',
  405: 'UNIMPLEMENTED',
  421: 'FAILED_PRECONDITION',
  503: 'UNAVAILABLE',
};

/** As `/rpc` answers it: like the refusal of a method. */
export const rpcError = ({ status, reason, message, headers = {} }: HttpError): Reply =>
  jsonReply({ code: codes[status] ?? 'INVALID_ARGUMENT', reason, message }, status, headers);

/** The message `Error` of the .proto as JSON. PIDs are in base64. */
export function rpcErrorBody({ code, reason, message, metadata, retryDelayMs, items }: WireError): object {
  const shown = items.map((item) => ({ ...item, pid: Buffer.from(item.pid).toString('base64') }));
  return { code: Status[code], reason, message, metadata, retryDelayMs, items: shown };
}

/** The refusal of a method. */
export function rpcRefusal(error: WireError): Reply {
  const { retryDelayMs } = error;
  const retry: Reply['headers'] = retryDelayMs > 0 ? { 'retry-after': String(Math.ceil(retryDelayMs / 1000)) } : {};
  return jsonReply(rpcErrorBody(error), httpStatus(error), retry);
}
