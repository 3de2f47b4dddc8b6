import { type Metadata, ResponderBuilder, ServerInterceptingCall, ServerListenerBuilder } from '@grpc/grpc-js';
import type { Refusal } from '@taskmaster/engine/domain';
import { toCallStatus } from '../../calls/wire-errors.ts';
import type { NextCall } from '../receiving/received-messages.ts';

/** Calls without an end of their own: health watches and reflection. */
export class EndlessCalls {
  readonly #calls = new Set<NextCall>();
  readonly #refusalOf: (thrown: unknown) => Refusal;
  #ending: Refusal | undefined;

  constructor(refusalOf: (thrown: unknown) => Refusal) {
    this.#refusalOf = refusalOf;
  }

  /** Adds a call, before it is served. `check` rejects with a `Refusal` if the caller that the metadata names may not make it. */
  add(call: NextCall, check?: (metadata: Metadata) => Promise<void>): ServerInterceptingCall {
    this.#calls.add(call);
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata((metadata, next) => {
        if (check === undefined) next(metadata);
        else
          check(metadata).then(
            () => next(metadata),
            (thrown: unknown) => call.sendStatus(toCallStatus(this.#refusalOf(thrown))),
          );
      })
      .withOnCancel(() => void this.#calls.delete(call)) // called at every end of the call
      .build();
    const responder = new ResponderBuilder()
      .withStart((next) => next(listener))
      .withSendMessage((message, next) => {
        next(message);
        if (this.#ending !== undefined) end(call, this.#ending);
      })
      .build();
    return new ServerInterceptingCall(call, responder);
  }

  /** Ends all calls. A later call ends after its first answer. */
  end(reason: Refusal): void {
    this.#ending = reason;
    for (const call of this.#calls) end(call, reason);
  }
}

const end = (call: NextCall, reason: Refusal): void => call.sendStatus(toCallStatus(reason));
