import type { Access } from '../../access/access.ts';

/** A call that ends if its caller loses the rights that it needs. */
export interface RevocableCall {
  /** Ends the call if its caller may not make it any more. */
  recheck(): void;
}

/** The calls that wait or stream while the rules of access may change. */
export class RevocableCalls implements Disposable {
  readonly #calls = new Set<RevocableCall>();
  readonly #end: () => void;

  constructor(access: Access | undefined) {
    this.#end = access?.onChange(() => this.#recheck()) ?? (() => {});
  }

  add(call: RevocableCall): void {
    this.#calls.add(call);
  }

  delete(call: RevocableCall): void {
    this.#calls.delete(call);
  }

  [Symbol.dispose](): void {
    this.#end();
  }

  #recheck(): void {
    for (const call of [...this.#calls]) call.recheck();
  }
}
