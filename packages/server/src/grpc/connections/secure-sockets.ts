import type { Socket } from 'node:net';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import type { Log } from '../../ports/log.ts';
import { certificateNames } from '../../tls/certificate-names.ts';
import { onFirstByte } from '../../tls/first-byte.ts';
import type { Tls } from '../../tls/tls.ts';
import { refuseCalls } from './refuse-calls.ts';

export interface SecureSocketsDeps {
  readonly tls: Tls;
  readonly log: Log;
  /** Serves a connection after its handshake. `names`: those in the certificate of the client. */
  readonly serve: (socket: TLSSocket, names: readonly string[]) => void;
}

/** Makes TLS connections of accepted ones. A client that speaks plain text gets an error that says so. */
export class SecureSockets implements Disposable {
  readonly #server: Server;
  readonly #endFollowing: () => void;

  constructor({ tls, log, serve }: SecureSocketsDeps) {
    // It never listens: accepted connections are handed to it.
    this.#server = createServer({ ...tls.serverOptions(), ALPNProtocols: ['h2'] }, (socket) => {
      socket.on('error', (err) => log.debug({ err, address: socket.remoteAddress }, 'connection broke'));
      serve(socket, certificateNames(socket));
    });
    this.#server.on('tlsClientError', (err, socket) => {
      log.debug({ err, address: socket.remoteAddress }, 'TLS handshake failed');
      socket.destroy();
    });
    this.#endFollowing = tls.onChange(() => this.#server.setSecureContext(tls.serverOptions()));
  }

  take(socket: Socket): void {
    onFirstByte(socket, (speaksTls) => {
      if (speaksTls) this.#server.emit('connection', socket);
      else refuseCalls(socket, 'TLS_REQUIRED', 'this port speaks TLS: connect with TLS');
    });
  }

  [Symbol.dispose](): void {
    this.#endFollowing();
  }
}
