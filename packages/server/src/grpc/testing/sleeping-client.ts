import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import { encodeToBuffer, StreamRequest, TaskMasterServiceService } from '@taskmaster/proto';

/** A client of `Stream` that sends calls and does not read. It uses HTTP/2 directly, because grpc-js always reads ahead. */
export class SleepingClient implements Disposable {
  readonly #session: ClientHttp2Session;
  readonly #stream: ClientHttp2Stream;
  /** Resolves when the connection has closed. */
  readonly closed: Promise<void>;

  constructor(port: number) {
    this.#session = connect(`http://127.0.0.1:${port}`);
    this.closed = new Promise((resolve) => this.#session.once('close', resolve));
    this.#session.on('error', () => {}); // The server is expected to close the connection.
    const headers = { ':method': 'POST', ':path': TaskMasterServiceService.stream.path };
    this.#stream = this.#session.request({ ...headers, 'content-type': 'application/grpc', te: 'trailers' });
    this.#stream.on('error', () => {});
  }

  ask(calls: StreamRequest['calls']): void {
    const message = encodeToBuffer(StreamRequest, { calls });
    const header = Buffer.alloc(5);
    header.writeUInt32BE(message.length, 1);
    this.#stream.write(Buffer.concat([header, message]));
  }

  /** Reads again. Resolves with the number of bytes when at least `bytes` have arrived. */
  wake(bytes: number): Promise<number> {
    return new Promise((resolve) => {
      let read = 0;
      this.#stream.on('data', (chunk: Buffer) => {
        read += chunk.length;
        if (read >= bytes) resolve(read);
      });
    });
  }

  [Symbol.dispose](): void {
    this.#session.destroy();
  }
}
