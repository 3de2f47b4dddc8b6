import { ResponderBuilder, ServerInterceptingCall, ServerListenerBuilder } from '@grpc/grpc-js';
import type { Refusal } from '../../domain/refusal.ts';
import { toCallStatus } from '../../service/wire-errors.ts';
import type { NextCall } from '../received-messages.ts';

/** Calls that last until their clients end them: those that watch the health, or ask by reflection. */
export class EndlessCalls {
  readonly #calls = new Set<NextCall>();
  #ending: Refusal | undefined;

  /** To be called for every such call, before it is served. */
  add(call: NextCall): ServerInterceptingCall {
    this.#calls.add(call);
    const listener = new ServerListenerBuilder()
      .withOnCancel(() => void this.#calls.delete(call)) // However it ended.
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

  /** Ends them all, and those that come later once they have had one answer. */
  end(reason: Refusal): void {
    this.#ending = reason;
    for (const call of this.#calls) end(call, reason);
  }
}

const end = (call: NextCall, reason: Refusal): void => call.sendStatus(toCallStatus(reason));
