import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { Refusal } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import { limits } from '@taskmaster/proto';
import type { Access } from '../access/access.ts';
import type { CallObserver } from '../calls/call-observer.ts';
import type { UnaryHandler } from '../calls/raw-service.ts';
import { RevocableCalls } from '../calls/revocable-calls.ts';
import { WaitingCalls } from '../calls/waiting-calls.ts';
import { refusalOf, toWireError } from '../calls/wire-errors.ts';
import type { Audit } from '../ports/audit.ts';
import { requestTooLarge } from '../requests/codec.ts';
import { type HttpError, rpcError, rpcRefusal } from './http-error.ts';
import type { Reply } from './reply.ts';
import { RpcCall, type RpcCallParts } from './rpc-call.ts';

/** What the console calls: the methods of the .proto under `/rpc/`. */
export interface RpcDeps {
  /** Handlers by the name of the method. Throws a `Refusal` while the program starts. */
  readonly handlers: () => Readonly<Record<string, UnaryHandler>>;
  readonly observer: CallObserver;
  readonly log: Log;
}

/** A call whose request has been received. */
type GatewayCall = Pick<RpcCallParts, 'method' | 'request' | 'access'>;

export const RPC_PATH = '/rpc/';
const RPC_TYPE = 'application/proto';
/** A page of another site cannot send it without asking first, and this server allows no site anything. */
const CONSOLE_HEADER = 'x-taskmaster-console';
const TIMEOUT_HEADER = 'x-timeout-ms';

/** Time limit of a call that names none, in ms. */
const TIMEOUT_MS = 15_000;
/** Below the time in which a reply must be sent, so that a late call is answered. */
const MOST_TIMEOUT_MS = 25_000;
/** Requests of all callers whose replies are not sent yet, in bytes. */
const HELD_BYTES = 4 * limits.requestBytes;
/** Those of one host, in bytes: half of them, so that slow ones leave room for other hosts. */
const HELD_OF_HOST_BYTES = HELD_BYTES / 2;
/** Calls of one host that may wait for tasks or news: half of those that are made for it. */
const WAITING = { calls: 8, totalBytes: 1024 * 1024, connectionBytes: 512 * 1024 };

/**
 * The refusal of a request that the console of this server cannot have sent. A page of another site must not act with the
 * certificate or the password that a browser adds by itself, or where no rules of access exist. Undefined: it may be served.
 */
function refusalOfForgery(headers: IncomingHttpHeaders): HttpError | undefined {
  const { 'content-type': type, 'sec-fetch-site': site, origin, host } = headers;
  if (site !== undefined && site !== 'same-origin') return crossSite(`sec-fetch-site is ${site}`);
  // Browsers leave `sec-fetch-site` out over plain HTTP. If it is there, it is right behind a proxy that changes `host`, too.
  if (origin !== undefined && site === undefined && hostOf(origin) !== host?.toLowerCase()) {
    return crossSite('origin names another server');
  }
  if (headers[CONSOLE_HEADER] !== '1') return crossSite(`the header ${CONSOLE_HEADER} is not 1`);
  if (type?.toLowerCase() === RPC_TYPE) return undefined;
  return { status: 415, reason: 'UNSUPPORTED_MEDIA_TYPE', message: `the content-type must be ${RPC_TYPE}` };
}

const crossSite = (problem: string): HttpError => ({
  status: 403,
  reason: 'CROSS_SITE',
  message: `only pages of this server may call it: ${problem}`,
});

const hostOf = (origin: string): string | undefined => URL.parse(origin)?.host;

/** Serves the methods of gRPC over HTTP, with the same bytes, rights, quotas, metrics and lines of the audit log. */
export class RpcGateway implements Disposable {
  readonly #deps: RpcDeps & { readonly audit: Audit };
  readonly #waiting = new WaitingCalls(WAITING);
  readonly #revocable: RevocableCalls;
  #heldBytes = 0;
  /** By the address of the host. */
  readonly #heldOfHosts = new Map<string, number>();

  constructor(deps: RpcDeps & { readonly audit: Audit; readonly access: Access | undefined }) {
    this.#deps = deps;
    this.#revocable = new RevocableCalls(deps.access);
  }

  [Symbol.dispose](): void {
    this.#revocable[Symbol.dispose]();
  }

  /**
   * Reads the body of a request, and counts it until the reply is sent. Throws a `Refusal` if it is too large, or if too many
   * bytes are counted.
   */
  async receive(request: IncomingMessage, response: ServerResponse): Promise<Buffer> {
    const host = request.socket.remoteAddress ?? '';
    const declared = Number(request.headers['content-length'] ?? 0);
    if (declared > limits.requestBytes) throw requestTooLarge(declared);
    const chunks: Buffer[] = [];
    let bytes = 0;
    // Not only while it arrives: it may wait until there is room for its reply.
    response.once('close', () => this.#hold(host, -bytes));
    // Otherwise a refusal would close the connection before it is sent.
    const arriving: AsyncIterable<Buffer> = request.iterator({ destroyOnReturn: false });
    for await (const chunk of arriving) {
      bytes += chunk.length;
      this.#hold(host, chunk.length);
      if (bytes > limits.requestBytes) throw requestTooLarge(undefined);
      if (this.#heldBytes > HELD_BYTES || (this.#heldOfHosts.get(host) ?? 0) > HELD_OF_HOST_BYTES) {
        throw new Refusal('OVERLOADED', 'too many requests over HTTP are in progress: try again');
      }
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }

  #hold(host: string, bytes: number): void {
    this.#heldBytes += bytes;
    const ofHost = (this.#heldOfHosts.get(host) ?? 0) + bytes;
    if (ofHost === 0) this.#heldOfHosts.delete(host);
    else this.#heldOfHosts.set(host, ofHost);
  }

  /** The refusal of a request before its body is read. Undefined: there is none. */
  refusalOf({ method, headers }: IncomingMessage): HttpError | undefined {
    if (method === 'POST') return refusalOfForgery(headers);
    const message = 'methods are called with POST';
    return { status: 405, reason: 'METHOD_NOT_ALLOWED', message, headers: { allow: 'POST' } };
  }

  /** Answers a call. `access`: the caller, who may have no valid credential. */
  async answer(
    message: IncomingMessage,
    response: ServerResponse,
    call: GatewayCall,
  ): Promise<Reply<string | Uint8Array>> {
    const { handlers, ...given } = this.#deps;
    const deps = { ...given, waiting: this.#waiting, revocable: this.#revocable };
    const { socket, headers } = message;
    try {
      const all = handlers();
      const handler = Object.hasOwn(all, call.method) ? all[call.method] : undefined;
      if (handler === undefined) return rpcError(unknownMethod(call.method));
      const timeoutMs = timeoutOf(headers[TIMEOUT_HEADER]);
      // Several of them come as one text, which is no trace.
      const traceparent = headers.traceparent?.toString();
      const body = await new RpcCall({ ...call, socket, response, timeoutMs, traceparent }, deps).serve(handler);
      return { status: 200, type: RPC_TYPE, body };
    } catch (thrown) {
      return this.refusal(thrown);
    }
  }

  refusal(thrown: unknown): Reply {
    // A call has logged its fault already, and has made it a refusal.
    const refusal = thrown instanceof Refusal ? thrown : refusalOf(thrown, this.#deps.log);
    return rpcRefusal(toWireError(refusal));
  }
}

const unknownMethod = (method: string): HttpError => ({
  status: 404,
  reason: 'UNKNOWN_METHOD',
  message: `there is no method ${JSON.stringify(method.slice(0, 64))}`,
});

function timeoutOf(header: string | string[] | undefined): number {
  if (header === undefined) return TIMEOUT_MS;
  const ms = /^\d{1,9}$/.test(String(header)) ? Number(header) : 0;
  if (ms >= 1 && ms <= MOST_TIMEOUT_MS) return ms;
  throw new Refusal('INVALID_ARGUMENT', `${TIMEOUT_HEADER} must be from 1 to ${MOST_TIMEOUT_MS}`, {
    metadata: { field: TIMEOUT_HEADER, limit: String(MOST_TIMEOUT_MS) },
  });
}
