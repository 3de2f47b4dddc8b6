import type { handleServerStreamingCall, MethodDefinition } from '@grpc/grpc-js';
import type { Refusal } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import type { CallObserver } from '../../calls/call-observer.ts';
import type { Origins } from '../../calls/origins.ts';
import type { Origin, StreamingHandler } from '../../calls/raw-service.ts';
import type { RevocableCalls } from '../../calls/revocable-calls.ts';
import type { WaitingCalls } from '../../calls/waiting-calls.ts';
import type { Audit } from '../../ports/audit.ts';
import { rawMethod } from '../../requests/codec.ts';
import type { CountConnection } from '../count-connection.ts';
import type { UnreadReplies } from '../unread-replies.ts';
import { StreamedCall } from './streamed-call.ts';

/** The methods of one service whose answers are streams. */
export interface StreamingService {
  /** `taskmaster.v1.BackupService`. */
  readonly name: string;
  /** Handlers by the name of the method. */
  readonly streaming: Readonly<Record<string, StreamingHandler>>;
  /** The refusal for a client that does not read. */
  readonly tooSlow: () => Refusal;
  /** True: a draining server ends the calls with OK, because their clients then call again soon. Default: it refuses them. */
  readonly endsComplete?: boolean;
}

export interface StreamingDeps {
  readonly log: Log;
  readonly observer: CallObserver;
  readonly audit: Audit;
  readonly unread: UnreadReplies;
  readonly waiting: WaitingCalls;
  readonly origins: Origins;
  readonly revocable: RevocableCalls;
  readonly countConnection: CountConnection;
  /** A client that reads nothing for this time is refused, in ms. */
  readonly readTimeoutMs: number;
}

/** A service in the form that grpc-js expects. */
interface GrpcStreamingService {
  readonly definition: Readonly<Record<string, MethodDefinition<Buffer, Buffer>>>;
  readonly implementation: Readonly<Record<string, handleServerStreamingCall<Buffer, Buffer>>>;
}

/** Serves the calls of streaming services until the server drains. */
export class StreamingCalls {
  readonly #deps: StreamingDeps;
  readonly #paths = new Set<string>();
  /** The calls, and whether they end with OK when the server drains. */
  readonly #calls = new Map<StreamedCall, boolean>();
  #ending: Refusal | undefined;

  constructor(deps: StreamingDeps) {
    this.#deps = deps;
  }

  /** Whether calls of this path are served here. */
  serves(path: string): boolean {
    return this.#paths.has(path);
  }

  serviceOf({ name, streaming, tooSlow, endsComplete = false }: StreamingService): GrpcStreamingService {
    const definition: Record<string, MethodDefinition<Buffer, Buffer>> = {};
    const implementation: Record<string, handleServerStreamingCall<Buffer, Buffer>> = {};
    for (const [method, handler] of Object.entries(streaming)) {
      const path = `/${name}/${method}`;
      this.#paths.add(path);
      definition[method] = { ...rawMethod(path, false), responseStream: true };
      const serve = async (call: Parameters<typeof begin>[0], origin: Origin): Promise<void> => {
        const streamed = new StreamedCall(call, { ...this.#deps, method, tooSlow }, origin);
        this.#calls.set(streamed, endsComplete);
        this.#deps.revocable.add(streamed, origin.access.expiresAt);
        if (this.#ending !== undefined) streamed.stop(endsComplete ? 'complete' : this.#ending);
        else streamed.admit();
        await streamed.send(handler(call.request, streamed));
        this.#calls.delete(streamed);
        this.#deps.revocable.delete(streamed);
      };
      const begin: handleServerStreamingCall<Buffer, Buffer> = async (call) =>
        serve(call, await this.#deps.origins.of(call.metadata, call.getPeer()));
      implementation[method] = begin;
    }
    return { definition, implementation };
  }

  /** Ends all calls, including later ones. */
  end(reason: Refusal): void {
    this.#ending = reason;
    for (const [call, endsComplete] of this.#calls) call.stop(endsComplete ? 'complete' : reason);
  }
}
