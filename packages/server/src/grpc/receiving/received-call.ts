import type { Http2Session, ServerHttp2Stream } from 'node:http2';
import type { Refusal } from '@taskmaster/engine/domain';
import type { CallObserver } from '../../calls/call-observer.ts';
import { toCallStatus } from '../../calls/wire-errors.ts';
import type { NextCall } from './received-messages.ts';
import type { ReceivingBytes, ReceivingCall, ReceivingConnection } from './receiving-bytes.ts';

/** Memory of a received chunk beside its bytes. Otherwise tiny chunks would hold far more memory than they count. */
const CHUNK_BYTES = 128;

/** Collects the bytes of messages. That of grpc-js returns the complete messages in the order of their bytes. */
interface Decoder {
  write(data: Buffer): Buffer[];
}

/** The parts of a call where grpc-js keeps what it receives. It has no option for limits. */
export interface DecodingCall extends NextCall {
  decoder?: Decoder;
  stream?: ServerHttp2Stream;
  handleEndEvent?: () => void;
}

export interface ReceivingDeps {
  readonly receiving: ReceivingBytes;
  readonly connections: WeakMap<Http2Session, ReceivingConnection>;
  readonly observer: CallObserver;
}

/** Takes the bytes of a call that was refused. */
const DISCARD: Decoder = { write: () => [] };

/**
 * Counts the bytes of a call's request while they arrive. `streams`: the client may send any number of messages, and each counts
 * until it is complete. The request of other calls counts until the client has sent its end, because only then it is served.
 */
export function countReceived(call: DecodingCall, method: string, streams: boolean, deps: ReceivingDeps): void {
  const { decoder, stream, handleEndEvent } = call;
  const session = stream?.session;
  // Another release of grpc-js may keep its messages elsewhere. Then a test fails.
  if (!decoder || !stream || !session || !handleEndEvent) return;
  let connection = deps.connections.get(session);
  if (connection === undefined) {
    connection = { bytes: 0, calls: new Set() };
    deps.connections.set(session, connection);
  }
  const received = new ReceivedCall({ deps, call, decoder, stream, connection, method, streams });
  call.decoder = received;
  if (!streams) call.handleEndEvent = handleEnd;
}

/** One function for all calls: thousands of them may wait. */
function handleEnd(this: DecodingCall): void {
  if (this.decoder instanceof ReceivedCall) this.decoder.complete();
  const own = Object.getPrototypeOf(this) as DecodingCall;
  own.handleEndEvent?.call(this);
}

interface ReceivedCallParts {
  readonly deps: ReceivingDeps;
  readonly call: DecodingCall;
  readonly decoder: Decoder;
  readonly stream: ServerHttp2Stream;
  readonly connection: ReceivingConnection;
  readonly method: string;
  readonly streams: boolean;
}

class ReceivedCall implements Decoder, ReceivingCall {
  readonly #parts: ReceivedCallParts;
  #bytes = 0;
  #began = 0;
  /** Set while it counts: ends that when the stream closes. */
  #onClose: (() => void) | undefined;

  constructor(parts: ReceivedCallParts) {
    this.#parts = parts;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get began(): number | undefined {
    return this.#parts.stream.isPaused() ? undefined : this.#began;
  }

  write(data: Buffer): Buffer[] {
    const { decoder, streams, deps, connection } = this.#parts;
    const { receiving } = deps;
    const messages = decoder.write(data);
    if (streams && messages.length > 0) this.complete();
    // The rest of the data may begin the next message, but is as short as a chunk.
    if (streams && messages.length > 0) return messages;
    const bytes = data.length + CHUNK_BYTES;
    if (this.#bytes === 0 && this.#onClose === undefined) receiving.countLater(this);
    this.#bytes += bytes;
    if (this.#onClose !== undefined) receiving.add(connection, this, bytes);
    return messages;
  }

  count(): void {
    if (this.#bytes === 0 || this.#onClose !== undefined) return;
    const { deps, connection, stream } = this.#parts;
    const { receiving } = deps;
    if (stream.closed) return;
    this.#onClose = () => this.complete();
    this.#began = receiving.now();
    stream.once('close', this.#onClose);
    receiving.add(connection, this, this.#bytes);
  }

  /** The request is complete, or the call has ended. */
  complete(): void {
    const bytes = this.#bytes;
    this.#bytes = 0;
    const onClose = this.#onClose;
    if (onClose === undefined) return;
    this.#onClose = undefined;
    const { deps, connection, stream } = this.#parts;
    stream.off('close', onClose);
    deps.receiving.remove(connection, this, bytes);
  }

  refuse(refusal: Refusal): void {
    const { call, stream, method, deps } = this.#parts;
    const { observer, receiving } = deps;
    const durationMs = receiving.now() - this.#began;
    this.complete();
    call.decoder = DISCARD;
    call.sendStatus(toCallStatus(refusal));
    // The client may never send the end, and the call keeps what it has received until the stream closes.
    stream.close();
    observer.callEnded(method, refusal.reason, durationMs);
  }
}
