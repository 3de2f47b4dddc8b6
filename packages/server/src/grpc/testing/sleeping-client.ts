import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import { encodeToBuffer, StreamRequest, TaskMasterServiceService } from '@taskmaster/proto';

/**
 * A client of `Stream` that asks and does not read. grpc-js's own reads ahead whatever its user does, so this one speaks
 * HTTP/2 itself.
 */
export class SleepingClient implements Disposable {
  readonly #session: ClientHttp2Session;
  readonly #stream: ClientHttp2Stream;
  /** Resolves when the connection is gone. */
  readonly closed: Promise<void>;

  constructor(port: number) {
    this.#session = connect(`http://127.0.0.1:${port}`);
    this.closed = new Promise((resolve) => this.#session.once('close', resolve));
    this.#session.on('error', () => {}); // Being cut off is what it is for.
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

  /** Reads on; resolves with the number of bytes once there are as many as asked for. */
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
