import type { Refusal } from '@taskmaster/engine/domain';
import { byMethodName, methods, taskMethodKeys } from '@taskmaster/proto';
import type { Origin, RawService, StreamSession, UnaryHandler } from './raw-service.ts';

/** A service that refuses every call until the real service is ready. */
export class LateService implements RawService {
  readonly unary: Readonly<Record<string, UnaryHandler>>;
  readonly #refusal: () => Refusal;
  #service: RawService | undefined;

  /** `refusal`: the answer to calls until then. */
  constructor(refusal: () => Refusal) {
    this.#refusal = refusal;
    this.unary = byMethodName(taskMethodKeys, (key) => this.#handler(methods[key].name));
  }

  /** Sets the real service. Call it once. */
  become(service: RawService): void {
    this.#service = service;
  }

  openStream(origin: Origin): StreamSession {
    return this.#service?.openStream(origin) ?? new RefusingSession(this.#refusal);
  }

  #handler(method: string): UnaryHandler {
    return (request, caller) => {
      const handler = this.#service?.unary[method];
      return handler ? handler(request, caller) : Promise.reject(this.#refusal());
    };
  }
}

/** Ends its stream at the first message, so that the client opens another one, here or at another node. */
class RefusingSession implements StreamSession {
  readonly #refusal: () => Refusal;

  constructor(refusal: () => Refusal) {
    this.#refusal = refusal;
  }

  read(): never {
    throw this.#refusal();
  }

  hold(): void {}

  close(): void {}
}
