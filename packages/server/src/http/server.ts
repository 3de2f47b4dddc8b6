import { once } from 'node:events';
import type {
  IncomingHttpHeaders,
  IncomingMessage,
  RequestListener,
  Server,
  ServerOptions,
  ServerResponse,
} from 'node:http';
import { type AddressInfo, isIP, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { Refusal } from '@taskmaster/engine/domain';
import type { Error as WireError } from '@taskmaster/proto';
import type { Access } from '../access/access.ts';
import { type CallerAccess, refusedAccess, unlimitedAccess } from '../access/caller-access.ts';
import { credentialOf } from '../access/credential.ts';
import { peerAddress } from '../calls/host-port.ts';
import { type Audit, noAudit } from '../ports/audit.ts';
import { certificateNames } from '../tls/certificate-names.ts';
import { onFirstByte } from '../tls/first-byte.ts';
import type { Tls } from '../tls/tls.ts';
import { compressed } from './compression.ts';
import { HttpConnections } from './connections.ts';
import { CONSOLE_PATH, type ConsoleFiles, fileAt, sendFile } from './console-files.ts';
import { type HttpError, pageError, rpcError } from './http-error.ts';
import { errorReply, type Reply, refusalReply } from './reply.ts';
import { ReplyGate, type ReplyLimits } from './reply-gate.ts';
import { quotaConnection } from './rpc-call.ts';
import { RPC_PATH, type RpcDeps, RpcGateway } from './rpc-gateway.ts';

/** Room for a filter with a percent-encoded expression of 256 bytes, and for a page token. */
const MAX_HEADER_BYTES = 16 * 1024;
// Not imported: an import reads all names of a module, and some of this one load the whole client behind `fetch`.
const { createServer, STATUS_CODES } = process.getBuiltinModule('node:http');
const { createServer: createSecureServer } = process.getBuiltinModule('node:https');

const MAX_CONNECTIONS = 200;
/** Default of `replyTimeoutMs`. */
const REPLY_TIMEOUT_MS = 30_000;
const REPLIES: ReplyLimits = { making: 2, makingForHost: 1, unreadBytes: 16 * 1024 * 1024, patienceMs: 2_000 };
/** A reply of a method has at most 4 MiB, and most have a few KiB. Some wait for tasks or news. */
const CALLS: ReplyLimits = { making: 32, makingForHost: 16, unreadBytes: 16 * 1024 * 1024, patienceMs: 2_000 };
/** How long a request waits for the replies of others, in ms. */
const GATE_TIMEOUT_MS = 10_000;
/** These replies are small, and a node whose probes fail is restarted. */
const PROBES: ReadonlySet<string> = new Set(['/livez', '/readyz', '/startupz']);
/** What the console asks for all the time. The replies are small, and do not wait for large ones. */
const OF_CONSOLE: ReadonlySet<string> = new Set(['/api/me', '/api/overview']);
/** Says that a credential is needed. */
const OPEN = '/api/me';
/** Paths that tell what methods tell. */
const API = '/api/';
/** Default of `arrivalTimeoutMs`. */
const ARRIVAL_TIMEOUT_MS = 10_000;
/** How often connections are checked for requests that are late, in ms. The default of Node.js is 30 s. */
const CHECK_MS = 1_000;

export interface HttpServerOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** How long a request may take to arrive, in ms. Default: 10 s. */
  readonly arrivalTimeoutMs?: number;
  /** How long a reply may take until it is sent, in ms. Default: 30 s. */
  readonly replyTimeoutMs?: number;
  /** Limit of the connections. Default: 200. Above it, the connection that has been idle for the longest time is closed. */
  readonly maxConnections?: number;
  /** Host names under which browsers may ask. Addresses and `localhost` need no entry. `*`: every name. Default: none. */
  readonly allowedHosts?: readonly string[];
  /** Bounds of the replies in memory. Default: two that are made, one for a host, 16 MiB that are unread. */
  readonly replies?: ReplyLimits;
}

/** The options of a server with these settings. `names`: those of the program; an empty one does not count. */
export function httpOptions(
  settings: { readonly allowedHosts: readonly string[]; readonly maxConnections: number },
  names: readonly string[],
): Pick<HttpServerOptions, 'allowedHosts' | 'maxConnections'> {
  const { allowedHosts, maxConnections } = settings;
  return { allowedHosts: [...names.filter((name) => name !== ''), ...allowedHosts], maxConnections };
}

/** Answers requests for one path. `address`: the caller's, `host:port`. */
export type Route = (query: URLSearchParams, access: CallerAccess, address: string) => Reply | Promise<Reply>;

export interface HttpServerDeps {
  /** Handlers by path. */
  readonly routes: ReadonlyMap<string, Route>;
  /** Undefined: the server speaks plain text. */
  readonly tls?: Tls | undefined;
  /** Turns an exception of a route into the error that the caller sees. */
  readonly toWireError: (thrown: unknown) => WireError;
  /** The rules of access. Probes need no credential. Undefined: every caller may do everything. */
  readonly access?: Access | undefined;
  /** False: metrics need no credential either. Default: true. */
  readonly guardsMetrics?: boolean;
  /** Default: none. */
  readonly audit?: Audit;
  /** Methods that are called with POST. Default: none. */
  readonly rpc?: RpcDeps | undefined;
  /** The pages, which need no credential. Default: none. */
  readonly files?: ConsoleFiles;
}

/** Headers that decide what a caller may see. If there are several, a proxy in front may have checked another one. */
const ONCE = ['host', 'authorization', 'origin', 'sec-fetch-site', 'sec-fetch-mode', 'sec-fetch-dest'];

const securityHeaders: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** HTTP server of a node or a proxy: health, metrics, statistics, and the methods that its console calls. */
export class HttpServer {
  readonly #options: HttpServerOptions;
  readonly #deps: HttpServerDeps;
  readonly #server: Server;
  readonly #connections: HttpConnections;
  readonly #gate: ReplyGate;
  /** For replies whose sizes are bounded. They do not wait for the others. */
  readonly #callGate: ReplyGate;
  readonly #rpc: RpcGateway | undefined;
  readonly #allowedHosts: ReadonlySet<string>;
  #started: Promise<number> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: HttpServerOptions, deps: HttpServerDeps) {
    this.#options = options;
    this.#deps = deps;
    const { arrivalTimeoutMs = ARRIVAL_TIMEOUT_MS, replyTimeoutMs = REPLY_TIMEOUT_MS } = options;
    this.#connections = new HttpConnections(options.maxConnections ?? MAX_CONNECTIONS, replyTimeoutMs);
    this.#gate = new ReplyGate(options.replies ?? REPLIES);
    this.#callGate = new ReplyGate(CALLS);
    const { rpc, access, audit = noAudit } = deps;
    this.#rpc = rpc && new RpcGateway({ ...rpc, access, audit });
    this.#allowedHosts = new Set(options.allowedHosts?.map((host) => host.toLowerCase()));
    const httpOptions = {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: arrivalTimeoutMs,
      requestTimeout: arrivalTimeoutMs,
      connectionsCheckingInterval: CHECK_MS,
      keepAliveTimeout: 30_000,
    };
    const serve = (request: IncomingMessage, response: ServerResponse): void => void this.#serve(request, response);
    this.#server =
      deps.tls === undefined ? createServer(httpOptions, serve) : secureServer(deps.tls, httpOptions, serve);
    this.#server.on('connection', (socket: Socket) => {
      this.#connections.add(socket);
      if (access === undefined) return;
      // A closed socket does not know its peer any more.
      const connection = quotaConnection(socket);
      socket.once('close', () => access.usages.disconnected(connection));
    });
    this.#server.on('clientError', refuseBytes);
  }

  /** Resolves with the port when requests are served. Rejects if the port cannot be used. */
  start(): Promise<number> {
    this.#started = this.#start();
    return this.#started;
  }

  /** Finishes the replies in progress, for up to 1 s, then closes every connection. Waits for a start that is under way. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #start(): Promise<number> {
    const { host, port } = this.#options;
    this.#server.listen({ host, port });
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port;
  }

  async #stop(): Promise<void> {
    await this.#started?.catch(() => {});
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeIdleConnections();
    const force = setTimeout(() => this.#connections.closeAll(), 1_000);
    await closed;
    clearTimeout(force);
    this.#rpc?.[Symbol.dispose]();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket, url } = request;
    const { rpc, method } = this.#called(url);
    // Reads and drops the body, so that the connection stays usable.
    if (rpc === undefined) request.resume();
    if (!(await this.#connections.turn(socket, response))) return;
    if (rpc !== undefined) {
      await this.#serveCall(request, response, rpc, method);
    } else if (PROBES.has(url ?? '')) {
      this.#send(request, response, await this.#answer(request));
    } else if (!(await this.#sendFile(request, response))) {
      const gate = OF_CONSOLE.has(pathOf(url)) ? this.#callGate : this.#gate;
      const { 'accept-encoding': encodings } = request.headers;
      await this.#reply(gate, request, response, async () => compressed(await this.#answer(request), encodings));
    }
  }

  /** Sends a file of the console, which all replies share. False: the request does not ask for one. */
  async #sendFile(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const { files = NO_FILES } = this.#deps;
    const path = pathOf(request.url);
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    if (files.size === 0 || !isRead || this.#refusalOf(request) !== undefined) return false;
    if (this.#stopped) response.shouldKeepAlive = false;
    if (path === '/' || `${path}/` === CONSOLE_PATH) {
      response.writeHead(302, { ...securityHeaders, location: CONSOLE_PATH }).end();
      return true;
    }
    const file = fileAt(files, path);
    if (file !== undefined) await sendFile(file, request, response);
    return file !== undefined;
  }

  /** The method that a request calls. */
  #called(url: string | undefined): { readonly rpc: RpcGateway | undefined; readonly method: string } {
    const path = pathOf(url);
    return { rpc: path.startsWith(RPC_PATH) ? this.#rpc : undefined, method: path.slice(RPC_PATH.length) };
  }

  async #serveCall(request: IncomingMessage, response: ServerResponse, rpc: RpcGateway, method: string): Promise<void> {
    const refused = this.#refusalOf(request) ?? rpc.refusalOf(request);
    if (refused !== undefined) {
      if (refused.reason === 'CROSS_SITE') this.#recordForgery(request);
      request.resume();
      this.#send(request, response, rpcError(refused));
      return;
    }
    let bytes: Buffer;
    try {
      bytes = await rpc.receive(request, response);
    } catch (thrown) {
      if (request.socket.destroyed) return;
      // The rest of the body is not wanted.
      response.shouldKeepAlive = false;
      request.resume();
      this.#send(request, response, rpc.refusal(thrown));
      return;
    }
    await this.#reply(this.#callGate, request, response, async () => {
      const access = await this.#provenCaller(request);
      return rpc.answer(request, response, { method, request: bytes, access });
    });
  }

  /** Makes and sends a reply when there is room for it. */
  async #reply(
    gate: ReplyGate,
    request: IncomingMessage,
    response: ServerResponse,
    make: () => Promise<Reply<string | Uint8Array>>,
  ): Promise<void> {
    const { socket } = request;
    const slot = await gate.enter(
      socket.remoteAddress ?? '',
      () => socket.destroy(),
      AbortSignal.timeout(GATE_TIMEOUT_MS),
    );
    if (slot === undefined) {
      this.#send(request, response, gate === this.#callGate ? rpcError(TOO_MANY) : pageError(TOO_MANY));
      return;
    }
    response.once('close', () => slot[Symbol.dispose]());
    if (socket.destroyed) slot[Symbol.dispose]();
    else slot.ready(this.#send(request, response, await make()));
  }

  /** Returns the size of the reply, in bytes. */
  #send(request: IncomingMessage, response: ServerResponse, reply: Reply<string | Uint8Array>): number {
    const body = typeof reply.body === 'string' ? Buffer.from(reply.body) : reply.body;
    // Otherwise a stop would wait for the connection of a finished reply.
    if (this.#stopped) response.shouldKeepAlive = false;
    response.writeHead(reply.status, {
      ...securityHeaders,
      ...reply.headers,
      'content-type': reply.type,
      'content-length': body.byteLength,
    });
    response.end(request.method === 'HEAD' ? undefined : body);
    return body.byteLength;
  }

  async #answer(request: IncomingMessage): Promise<Reply> {
    try {
      const refused = this.#refusalOf(request);
      return refused === undefined ? await this.#routed(request) : pageError(refused);
    } catch (thrown) {
      const error = this.#deps.toWireError(thrown);
      if (error.reason === 'UNAUTHENTICATED' || error.reason === 'PERMISSION_DENIED') this.#record(request, error);
      return refusalReply(error, !OF_CONSOLE.has(pathOf(request.url)));
    }
  }

  /** Throws a `Refusal` if the path needs a credential and the request has none that is valid. */
  async #admitted(request: IncomingMessage, path: string): Promise<CallerAccess> {
    const { access, guardsMetrics = true } = this.#deps;
    if (PROBES.has(path) || (path === '/metrics' && !guardsMetrics)) return unlimitedAccess;
    if (path === OPEN) {
      const caller = await this.#provenCaller(request);
      // A page asks without a token at first. One that is not valid is recorded, because somebody may try many.
      if (request.headers.authorization !== undefined) this.#recordUnknown(request, caller);
      return caller;
    }
    const caller = await (path.startsWith(API) ? this.#provenCaller(request) : callerOf(request, access));
    caller.requireIdentity();
    caller.usage?.request();
    return caller;
  }

  /**
   * The caller of methods, and of what tells the same. As over gRPC, it must show a certificate if the settings require one.
   * Other paths never do, because probes have none.
   */
  async #provenCaller(request: IncomingMessage): Promise<CallerAccess> {
    const { access, tls } = this.#deps;
    const isRequired = tls?.settings.clientCertificates === 'required';
    const { socket } = request;
    if (isRequired && !(socket instanceof TLSSocket && socket.authorized)) return refusedAccess(NO_CERTIFICATE);
    return callerOf(request, access);
  }

  #recordUnknown(request: IncomingMessage, caller: CallerAccess): void {
    try {
      caller.requireIdentity();
    } catch (thrown) {
      this.#record(request, this.#deps.toWireError(thrown));
    }
  }

  #record({ method, url, socket }: IncomingMessage, { reason: result, metadata }: WireError): void {
    const { audit = noAudit } = this.#deps;
    // A refusal of rights names the principal. A caller without a valid credential has none.
    const { principal } = metadata;
    // As the server reads it: a path has many forms. Queries are left out: a caller may put a token there by mistake.
    const action = `${method} ${pathOf(url)}`;
    audit.record({
      kind: 'refusal',
      action,
      target: '',
      result,
      ...(principal !== undefined && { principal }),
      address: `${socket.remoteAddress}:${socket.remotePort}`,
    });
  }

  /** The method and the page of the other site are texts that anybody can make up, so they are left out. */
  #recordForgery({ socket: { remoteAddress, remotePort } }: IncomingMessage): void {
    const { audit = noAudit } = this.#deps;
    const address = peerAddress(`${remoteAddress}:${remotePort}`);
    audit.record({ kind: 'refusal', action: 'POST /rpc/', target: '', result: 'CROSS_SITE', address });
  }

  /** The refusal of a request that neither a route nor a method should see. */
  #refusalOf({ headers, headersDistinct, url = '' }: IncomingMessage): HttpError | undefined {
    const repeated = ONCE.find((name) => (headersDistinct[name]?.length ?? 0) > 1);
    if (repeated !== undefined) {
      return { status: 400, reason: 'BAD_REQUEST', message: `the header ${repeated} is there more than once` };
    }
    // Their replies have no secrets, and probes may send any name.
    if (PROBES.has(url)) return undefined;
    if (!isAllowedHost(headers.host, this.#allowedHosts)) {
      const message = `this server has no name ${JSON.stringify(headers.host)}: add it to the setting http.allowedHosts`;
      return { status: 421, reason: 'UNKNOWN_HOST', message };
    }
    if (!isCrossSite(headers)) return undefined;
    return { status: 403, reason: 'CROSS_SITE', message: 'a page of another site asks' };
  }

  async #routed(request: IncomingMessage): Promise<Reply> {
    const url = parsedUrl(request.url);
    if (url === null || !request.url?.startsWith('/')) return errorReply(400, 'BAD_REQUEST', 'the URL is not valid');
    const route = this.#deps.routes.get(url.pathname);
    if (route === undefined) {
      const known = [...this.#deps.routes.keys()].join(', ');
      return errorReply(404, 'NOT_FOUND', `unknown path; known paths: ${known}`);
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return errorReply(405, 'METHOD_NOT_ALLOWED', 'only GET and HEAD are allowed', { allow: 'GET, HEAD' });
    }
    const { remoteAddress, remotePort } = request.socket;
    const address = peerAddress(`${remoteAddress}:${remotePort}`);
    return route(url.searchParams, await this.#admitted(request, url.pathname), address);
  }
}

const NO_CERTIFICATE = new Refusal('UNAUTHENTICATED', 'this server requires a client certificate');

const NO_FILES: ConsoleFiles = new Map();

const parsedUrl = (url = ''): URL | null => URL.parse(url, 'http://node');
const pathOf = (url: string | undefined): string => parsedUrl(url)?.pathname ?? '';

const TOO_MANY: HttpError = {
  status: 503,
  reason: 'OVERLOADED',
  message: 'too many replies are not read: try again',
  headers: { 'retry-after': '1' },
};

/** A server that speaks TLS. A client that speaks plain text gets an error that says so. */
function secureServer(tls: Tls, httpOptions: ServerOptions, serve: RequestListener): Server {
  // Callers may show certificates. Whether they must is decided by the rights that a path needs.
  const options = () => ({ ...tls.serverOptions(), rejectUnauthorized: false });
  const server = createSecureServer({ ...httpOptions, ...options() }, serve);
  const begin = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    // The handshake has a time limit of its own.
    const late = setTimeout(() => socket.destroy(), ARRIVAL_TIMEOUT_MS);
    socket.once('close', () => clearTimeout(late));
    onFirstByte(socket, (speaksTls) => {
      clearTimeout(late);
      if (speaksTls) for (const listener of begin) listener.call(server, socket);
      else socket.resume().end(errorBytes(400, 'TLS_REQUIRED', 'this port speaks TLS: use https'));
    });
  });
  const end = tls.onChange(() => server.setSecureContext(options()));
  server.once('close', end);
  return server;
}

/** Answers bytes that are not HTTP, and headers that are too long or arrive too slowly. */
function refuseBytes(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const code = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400;
  socket.end(errorBytes(code, 'BAD_REQUEST', 'the request is not valid HTTP, too long or too slow'));
}

/** A whole reply, for a connection that has no request. */
function errorBytes(code: number, reason: string, message: string): string {
  const { body } = errorReply(code, reason, message);
  const head = `HTTP/1.1 ${code} ${STATUS_CODES[code]}`;
  const headers = 'content-type: application/json\r\ncache-control: no-store\r\nconnection: close';
  return `${head}\r\n${headers}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** Longer headers are not valid. */
const MOST_CHARACTERS = 8_192;
const BASIC = /^basic +([\w\-+/]+=*) *$/i;

/** The caller of a request. Without rules of access callers may do everything. */
async function callerOf(request: IncomingMessage, access: Access | undefined): Promise<CallerAccess> {
  if (access === undefined) return unlimitedAccess;
  const { socket } = request;
  const names = socket instanceof TLSSocket ? certificateNames(socket) : [];
  return access.identify(credentialOf(asBearer(request.headers.authorization), names));
}

/** Browsers know no tokens, but passwords: the password is the token. The name may be any. */
function asBearer(header: string | undefined): string | undefined {
  const basic = header !== undefined && header.length <= MOST_CHARACTERS ? BASIC.exec(header)?.[1] : undefined;
  if (basic === undefined) return header;
  const text = Buffer.from(basic, 'base64').toString();
  const colon = text.indexOf(':');
  return colon === -1 ? header : `Bearer ${text.slice(colon + 1)}`;
}

/**
 * Whether a browser may ask for a host. A page of another site can make a browser send requests to this server under a name of
 * its own (DNS rebinding). So a name must be known; an address always is, because a page cannot rebind it.
 */
function isAllowedHost(header: string | undefined, allowed: ReadonlySet<string>): boolean {
  if (header === undefined) return true; // HTTP/1.0, which no browser speaks.
  const host = header.toLowerCase().replace(/:\d+$/, '');
  const bare = host.replace(/^\[(.*)\]$/, '$1');
  return isIP(bare) !== 0 || host === 'localhost' || allowed.has(host) || allowed.has('*');
}

/** Whether a request comes from a page of another site. A link that a user follows does not. */
function isCrossSite(headers: IncomingHttpHeaders): boolean {
  const { 'sec-fetch-site': site, 'sec-fetch-mode': mode, 'sec-fetch-dest': dest } = headers;
  if (site === undefined || site === 'same-origin' || site === 'none') return false;
  return !(mode === 'navigate' && dest === 'document');
}
