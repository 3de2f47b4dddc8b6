/** A signal that follows others until it is disposed of; `AbortSignal.any` would hang on to those that live long. */
export class LinkedSignal implements Disposable {
  readonly #abort = new AbortController();
  readonly #sources: readonly AbortSignal[];
  readonly #onAbort = (): void => this.#abort.abort();

  constructor(...sources: readonly (AbortSignal | undefined)[]) {
    this.#sources = sources.filter((source) => source !== undefined);
    for (const source of this.#sources) {
      if (source.aborted) this.#abort.abort();
      else source.addEventListener('abort', this.#onAbort, { once: true });
    }
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  abort(): void {
    this.#abort.abort();
  }

  [Symbol.dispose](): void {
    for (const source of this.#sources) source.removeEventListener('abort', this.#onAbort);
  }
}
