import { status } from '@grpc/grpc-js';
import { visibleJson, type Error as WireError } from '@taskmaster/proto';

/** `Body`: text, or the bytes of a message. */
export interface Reply<Body extends string | Uint8Array = string> {
  readonly status: number;
  readonly type: 'application/json' | 'text/html; charset=utf-8' | (string & {});
  readonly body: Body;
  readonly headers?: Readonly<Record<string, string>>;
  /** True: it has no secret, so it may be compressed. */
  readonly isCompressible?: boolean;
}

export function jsonReply(body: unknown, code = 200, headers: Reply['headers'] = {}): Reply {
  return { status: code, type: 'application/json', body: `${visibleJson(JSON.stringify(body))}\n`, headers };
}

/** An error of HTTP itself. `reason` is machine-readable. */
export function errorReply(code: number, reason: string, message: string, headers: Reply['headers'] = {}): Reply {
  return jsonReply({ error: { reason, message } }, code, headers);
}

const httpStatusOf: Readonly<Record<number, number>> = {
  [status.INVALID_ARGUMENT]: 400,
  [status.UNAUTHENTICATED]: 401,
  [status.PERMISSION_DENIED]: 403,
  [status.NOT_FOUND]: 404,
  [status.ALREADY_EXISTS]: 409,
  [status.FAILED_PRECONDITION]: 409,
  [status.RESOURCE_EXHAUSTED]: 429,
  [status.UNAVAILABLE]: 503,
  [status.DEADLINE_EXCEEDED]: 504,
  // As nginx says that the client has gone.
  [status.CANCELLED]: 499,
  [status.UNIMPLEMENTED]: 501,
};

export function httpStatus(error: WireError): number {
  return httpStatusOf[error.code] ?? 500;
}

/** Browsers ask their users for a name and a password. */
const ASK_FOR_TOKEN = { 'www-authenticate': 'Basic realm="TaskMaster", charset="UTF-8", Bearer' } as const;

/** A refusal, with the same reason, message and metadata as over gRPC. `asks`: a browser may ask its user for a token. */
export function refusalReply(error: WireError, asks: boolean): Reply {
  const { reason, message, metadata, retryDelayMs } = error;
  const retry: Reply['headers'] = retryDelayMs > 0 ? { 'retry-after': String(Math.ceil(retryDelayMs / 1000)) } : {};
  const code = httpStatus(error);
  return jsonReply({ error: { reason, message, metadata } }, code, {
    ...retry,
    ...(code === 401 && asks && ASK_FOR_TOKEN),
  });
}
