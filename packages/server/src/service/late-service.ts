import { TaskMasterServiceService } from '@taskmaster/proto';
import type { Refusal } from '../domain/refusal.ts';
import type { Origin, RawService, StreamSession, UnaryHandler } from './raw-service.ts';

const UNARY_METHODS = Object.values(TaskMasterServiceService)
  .filter(({ requestStream }) => !requestStream)
  .map(({ path }) => path.slice(path.lastIndexOf('/') + 1));

/** A service that refuses every call until there is one to serve them. */
export class LateService implements RawService {
  readonly unary: Readonly<Record<string, UnaryHandler>>;
  readonly #refusal: () => Refusal;
  #service: RawService | undefined;

  /** `refusal`: what callers are told meanwhile. */
  constructor(refusal: () => Refusal) {
    this.#refusal = refusal;
    this.unary = Object.fromEntries(UNARY_METHODS.map((method) => [method, this.#handler(method)]));
  }

  /** To be called once. */
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

/** Ends its stream at the first message: the next one finds the service, or somebody else. */
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
