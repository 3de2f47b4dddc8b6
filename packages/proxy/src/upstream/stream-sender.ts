import {
  type CallCodec,
  CallField,
  type CallOutcome,
  CallStream,
  ENTRY_BYTES,
  encodeStreamEntries,
  limits,
  ResultField,
  readStreamEntries,
  type StreamEnd,
  type StreamEntry,
  type WheelTiming,
  Error as WireErrorType,
} from '@taskmaster/proto';
import type { Sender, SendFailure, SendOptions } from './sender.ts';
import {
  isWaiting,
  LostError,
  RefusedError,
  type RoutedPeer,
  streamedAs,
  type UnaryMethod,
  type Upstream,
  type UpstreamPipe,
} from './upstream.ts';

/** Small, because the calls of a message wait for each other on the wire, and may have several callers. */
const MESSAGE_BYTES = 64 * 1024;

export interface StreamSenderDeps {
  readonly upstream: Upstream;
  readonly peer: RoutedPeer;
  readonly timing: WheelTiming;
  /** Calls back at the end of this turn of the event loop. */
  readonly soon: (callback: () => void) => void;
  /** Called with the answer to a lease whose caller no longer waits. */
  readonly giveBack: (reply: Uint8Array) => void;
}

/** An encoded request, with the number of the field that it goes into. */
type StreamedRequest = Omit<StreamEntry, 'id'>;
type NodeStream = CallStream<StreamedRequest, StreamEntry, SendFailure, UpstreamPipe>;

const CANCEL: StreamedRequest = { field: CallField.cancel, bytes: new Uint8Array(0) };

const codec: CallCodec<StreamedRequest, StreamEntry> = {
  encode: (calls) => encodeStreamEntries(calls.map(({ id, request = CANCEL }) => ({ id, ...request }))),
  decode: readStreamEntries,
};

/**
 * Sends the calls of one caller over a stream to each node, or over several if it has very many calls. A stream that breaks fails
 * only its own calls.
 */
export class StreamSender implements Sender {
  readonly #deps: StreamSenderDeps;
  /** By address. No list is empty. */
  readonly #streams = new Map<string, NodeStream[]>();
  #held = false;
  #closed = false;

  constructor(deps: StreamSenderDeps) {
    this.#deps = deps;
  }

  send(address: string, method: UnaryMethod, request: Uint8Array, options: SendOptions): Promise<Uint8Array> {
    const { upstream, peer } = this.#deps;
    const streamed = streamedAs[method];
    // A call that fills a message alone does not fit together with its entry.
    if (streamed === undefined || request.length + ENTRY_BYTES > limits.requestBytes || upstream.isLocal?.(address)) {
      return upstream.unary(address, method, request, { ...options, peer });
    }
    return new Promise((resolve, reject) => {
      if (this.#closed) throw new LostError('the caller is gone', 'cancelled', false);
      const { signal, timeoutMs } = options;
      const stream = this.#streamTo(address);
      const call = { field: CallField[streamed], bytes: request };
      const waits = isWaiting(method);
      stream.send({ request: call, waits, size: request.length, signal, timeoutMs }, (outcome) => {
        if (outcome.kind === 'answered' && outcome.result.field === ResultField[streamed])
          resolve(outcome.result.bytes);
        else reject(failureOf(outcome));
      });
      // Only the first one stays open when its calls are answered.
      if (stream !== this.#streams.get(address)?.[0]) stream.end();
    });
  }

  /** Starts or stops holding answers back at the nodes. */
  hold(held: boolean): void {
    if (this.#held === held) return;
    this.#held = held;
    for (const { pipe } of [...this.#streams.values()].flat()) pipe.hold(held);
  }

  /**
   * Sends no more calls. Streams end when all sent calls are answered: a cancelled lease may have been granted before, and only
   * its answer tells which tasks to release.
   */
  end(): void {
    this.hold(false);
    this.#closed = true;
    for (const stream of [...this.#streams.values()].flat()) stream.end();
  }

  #streamTo(address: string): NodeStream {
    const streams = this.#streams.get(address);
    const known = streams?.find(({ hasRoom }) => hasRoom);
    if (known !== undefined) return known;
    const { upstream, peer, timing, soon, giveBack } = this.#deps;
    const stream: NodeStream = new CallStream({
      open: (listener) => upstream.stream(address, { peer }, listener),
      codec,
      timing,
      soon,
      messageBytes: MESSAGE_BYTES,
      onLateAnswer: ({ field, bytes }) => {
        if (field === ResultField.lease) giveBack(bytes);
      },
      onOver: () => this.#drop(address, stream),
    });
    if (this.#held) stream.pipe.hold(true);
    if (streams === undefined) this.#streams.set(address, [stream]);
    else streams.push(stream);
    return stream;
  }

  #drop(address: string, ended: NodeStream): void {
    const left = this.#streams.get(address)?.filter((stream) => stream !== ended) ?? [];
    if (left.length > 0) this.#streams.set(address, left);
    else this.#streams.delete(address);
  }
}

function failureOf(outcome: CallOutcome<StreamEntry, SendFailure>): SendFailure {
  switch (outcome.kind) {
    case 'answered':
      if (outcome.result.field === ResultField.error) return refusedFrom(outcome.result.bytes);
      return new LostError('the node answered with a result of another kind', 'broken', true);
    case 'unencodable':
      return new LostError('the call cannot be encoded', 'broken', false, outcome.cause);
    case 'givenUp':
      return outcome.why === 'deadline'
        ? new LostError('no answer came in time', 'deadline', outcome.sent)
        : new LostError('the call was cancelled', 'cancelled', outcome.sent);
    case 'lost': {
      if (isRefusedUnread(outcome.end)) return outcome.end.error;
      const { message, kind, maybeApplied, cause } = lossOf(outcome.end);
      return new LostError(message, kind, outcome.sent && maybeApplied, cause);
    }
  }
}

function refusedFrom(bytes: Uint8Array): SendFailure {
  try {
    return new RefusedError(WireErrorType.decode(bytes));
  } catch (cause) {
    return new LostError('the node sent a damaged refusal', 'broken', true, cause);
  }
}

/** The refusals of a caller. A node answers every call that it has read before it ends the stream with one of them. */
const OF_CALLER: ReadonlySet<string> = new Set(['UNAUTHENTICATED', 'CLOCK_SKEW']);

/** Whether the node refuses the caller of the stream. It has not read the unanswered calls. */
function isRefusedUnread(
  end: StreamEnd<SendFailure>,
): end is Extract<StreamEnd<SendFailure>, { kind: 'ended' }> & { readonly error: RefusedError } {
  return end.kind === 'ended' && end.error instanceof RefusedError && OF_CALLER.has(end.error.error.reason);
}

/** The failure of the sent calls of a stream that is over. */
function lossOf(end: StreamEnd<SendFailure>): LostError {
  if (end.kind === 'damaged') return new LostError('the node sent a damaged answer', 'broken', true, end.cause);
  if (end.kind === 'closed') return new LostError('the stream was closed', 'cancelled', true);
  const { error } = end;
  if (error instanceof LostError) return error;
  // A node that stops answers every call that it has read before it ends the stream. It has not read the unanswered calls.
  const unread = error.error.reason === 'SHUTTING_DOWN';
  return new LostError(`the node ended the stream: ${error.message}`, 'connection', !unread, error);
}
