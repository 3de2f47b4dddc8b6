import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Error as WireError } from '@taskmaster/proto';
import { errorReply, type Reply, refusalReply } from './reply.ts';

/** Long enough for a filter with an expression of 256 bytes, percent-encoded, and a page token. */
const MAX_HEADER_BYTES = 16 * 1024;
const MAX_CONNECTIONS = 1_000;

export interface HttpServerOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

/** Answers requests for one path. */
export type Route = (query: URLSearchParams) => Reply | Promise<Reply>;

export interface HttpServerDeps {
  /** By path. */
  readonly routes: ReadonlyMap<string, Route>;
  /** What a route has thrown, as the error a caller may see. */
  readonly toWireError: (thrown: unknown) => WireError;
}

const securityHeaders: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** The HTTP face of a node or a proxy: health, metrics, statistics for programs and people. It only reads. */
export class HttpServer {
  readonly #options: HttpServerOptions;
  readonly #deps: HttpServerDeps;
  readonly #server: Server;

  constructor(options: HttpServerOptions, deps: HttpServerDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#server = createServer(
      { maxHeaderSize: MAX_HEADER_BYTES, headersTimeout: 10_000, requestTimeout: 10_000, keepAliveTimeout: 30_000 },
      (request, response) => void this.#serve(request, response),
    );
    this.#server.maxConnections = MAX_CONNECTIONS;
    this.#server.on('clientError', refuseBytes);
  }

  /** Resolves with the port once requests are served; rejects when it cannot be had. */
  async start(): Promise<number> {
    const { host, port } = this.#options;
    this.#server.listen({ host, port });
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port;
  }

  /** Lets replies under way finish, then closes every connection. */
  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeIdleConnections();
    // Whoever reads this slowly can ask again.
    const force = setTimeout(() => this.#server.closeAllConnections(), 1_000);
    await closed;
    clearTimeout(force);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // Nothing here takes a body; what is sent is read and dropped, so that the connection stays usable.
    request.resume();
    const reply = await this.#answer(request).catch((thrown: unknown) => refusalReply(this.#deps.toWireError(thrown)));
    const body = Buffer.from(reply.body);
    response.writeHead(reply.status, {
      ...securityHeaders,
      ...reply.headers,
      'content-type': reply.type,
      'content-length': body.length,
    });
    response.end(request.method === 'HEAD' ? undefined : body);
  }

  async #answer(request: IncomingMessage): Promise<Reply> {
    const url = URL.parse(request.url ?? '', 'http://node');
    if (url === null || !request.url?.startsWith('/')) return errorReply(400, 'BAD_REQUEST', 'the URL is not valid');
    const route = this.#deps.routes.get(url.pathname);
    if (route === undefined) {
      const known = [...this.#deps.routes.keys()].join(', ');
      return errorReply(404, 'NOT_FOUND', `nothing is here; there are ${known}`);
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return errorReply(405, 'METHOD_NOT_ALLOWED', 'this server only shows things', { allow: 'GET, HEAD' });
    }
    return route(url.searchParams);
  }
}

/** Bytes that are not HTTP, headers that are too long or too slow. */
function refuseBytes(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const code = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400;
  const { body } = errorReply(code, 'BAD_REQUEST', 'the request could not be read');
  const head = `HTTP/1.1 ${code} ${STATUS_CODES[code]}\r\ncontent-type: application/json\r\nconnection: close`;
  socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}
