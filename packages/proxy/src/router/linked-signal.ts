import type { CallSignal } from '@taskmaster/server/domain';
import type { Router } from './router.ts';

/** Aborted once its caller gives up or the router stops, until it is disposed of; and by hand. */
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
