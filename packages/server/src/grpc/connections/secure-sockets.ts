import { performServerHandshake } from 'node:http2';
import type { Socket } from 'node:net';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import { status } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import type { Reason } from '@taskmaster/proto';
import { toCallStatus } from '../../calls/wire-errors.ts';
import { certificateNames } from '../../tls/certificate-names.ts';
import { onFirstByte } from '../../tls/first-byte.ts';
import type { Tls } from '../../tls/tls.ts';

/**
 * Handshakes that begin in one turn of the event loop. Each takes about a millisecond, so a flood of them would delay all calls.
 * They have no places that an unfinished handshake could keep.
 */
const BEGUN_PER_TURN = 4;

export interface SecureSocketsDeps {
  readonly tls: Tls;
  readonly log: Log;
  /** Serves a connection after its handshake. `names`: those in the certificate of the client. */
  readonly serve: (socket: TLSSocket, names: readonly string[]) => void;
}

/** Makes TLS connections of accepted ones. A client that speaks plain text gets an error that says so. */
export class SecureSockets implements Disposable {
  readonly #server: Server;
  /** Connections whose handshake has not begun. Connections are limited, so this is, too. */
  readonly #waiting: Socket[] = [];
  #completed = 0;
  #failed = 0;
  readonly #endFollowing: () => void;

  constructor({ tls, log, serve }: SecureSocketsDeps) {
    // It never listens: accepted connections are handed to it.
    this.#server = createServer({ ...tls.serverOptions(), ALPNProtocols: ['h2'] }, (socket) => {
      this.#completed++;
      socket.on('error', (err) => log.debug({ err, address: socket.remoteAddress }, 'connection broke'));
      serve(socket, certificateNames(socket));
    });
    this.#server.on('tlsClientError', (err, socket) => {
      this.#failed++;
      log.debug({ err, address: socket.remoteAddress }, 'TLS handshake failed');
      socket.destroy();
    });
    this.#endFollowing = tls.onChange(() => this.#server.setSecureContext(tls.serverOptions()));
  }

  /** Number of handshakes since the start. */
  get handshakes(): { readonly completed: number; readonly failed: number } {
    return { completed: this.#completed, failed: this.#failed };
  }

  take(socket: Socket): void {
    onFirstByte(socket, (speaksTls) => {
      if (speaksTls) this.#beginSoon(socket);
      else refuseCalls(socket, 'TLS_REQUIRED', 'this port speaks TLS: connect with TLS');
    });
  }

  #beginSoon(socket: Socket): void {
    this.#waiting.push(socket);
    if (this.#waiting.length === 1) setImmediate(() => this.#beginSome());
  }

  #beginSome(): void {
    for (const socket of this.#waiting.splice(0, BEGUN_PER_TURN)) {
      if (!socket.destroyed) this.#server.emit('connection', socket);
    }
    if (this.#waiting.length > 0) setImmediate(() => this.#beginSome());
  }

  [Symbol.dispose](): void {
    this.#endFollowing();
  }
}

/** The connection stays open for this time, in ms, so that the client makes a call and learns the reason. */
const OPEN_MS = 1_000;
/** Calls that are answered on one connection. */
const MOST_CALLS = 4;

const HTTP_OK = 200;

/** Refuses the first calls of a connection with a reason, then closes it. */
function refuseCalls(socket: Socket, reason: Reason, message: string): void {
  const { code, details, metadata } = toCallStatus(new Refusal(reason, message));
  const session = performServerHandshake(socket, { settings: { maxConcurrentStreams: MOST_CALLS } });
  let calls = 0;
  session.on('stream', (stream) => {
    stream.on('error', () => {}); // The client has closed it.
    stream.respond(
      {
        ':status': HTTP_OK,
        'content-type': 'application/grpc+proto',
        'grpc-status': String(code ?? status.UNKNOWN),
        'grpc-message': encodeURI(details ?? ''),
        ...metadata?.toHttp2Headers(),
      },
      { endStream: true },
    );
    if (++calls >= MOST_CALLS) session.close();
  });
  session.on('error', () => socket.destroy()); // It does not speak HTTP/2.
  setTimeout(() => {
    session.close();
    setTimeout(() => socket.destroy(), OPEN_MS).unref();
  }, OPEN_MS).unref();
}
