import type { CallSignal } from '@taskmaster/engine/domain';
import type { Router } from '../routing/router.ts';

/** A signal that aborts when the caller cancels, when the router stops, or on `abort`. Dispose it to remove its listeners. */
export class LinkedSignal implements Disposable {
  readonly #abort = new AbortController();
  readonly #caller: CallSignal | undefined;
  readonly #onAbort = (): void => this.#abort.abort();
  readonly #unlinkRouter: () => void;

  constructor(router: Pick<Router, 'isStopping' | 'onStop'>, caller: CallSignal | undefined) {
    this.#caller = caller;
    this.#unlinkRouter = router.onStop(this.#onAbort);
    caller?.addEventListener('abort', this.#onAbort);
    if (router.isStopping || caller?.aborted) this.#abort.abort();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  abort(): void {
    this.#abort.abort();
  }

  [Symbol.dispose](): void {
    this.#unlinkRouter();
    this.#caller?.removeEventListener('abort', this.#onAbort);
  }
}
