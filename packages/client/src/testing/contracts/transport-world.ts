import type { Transport } from '../../transport/transport.ts';

/** A transport to an empty engine. */
export interface TransportWorld extends AsyncDisposable {
  readonly transport: Transport;
  /** From now on updates arrive but get no answer. */
  stall(): void;
  /** Advances the time until the promise settles. */
  settle<T>(promise: Promise<T>): Promise<T>;
}
