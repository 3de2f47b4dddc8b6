import { CHANNEL } from './outbox.ts';

/** A connected client of the package `pg`. */
export interface PgListener {
  query(text: string): Promise<unknown>;
  on(event: 'notification', listener: (message: { readonly channel: string }) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  end(): Promise<void>;
}

/** Subscribes to news: `wake` for each of them, `lost` when there will be no more. */
export type Listen = (wake: () => void, lost: () => void) => Promise<AsyncDisposable>;

/**
 * For the `listen` of a relay: PostgreSQL tells it of commits. `connect` resolves with a connected `pg.Client`, not through a
 * pooler of transactions. The relay ends it, and connects again when the connection is lost.
 */
export const pgListen =
  (connect: () => Promise<PgListener>): Listen =>
  async (wake, lost) => {
    const client = await connect();
    // `end` follows.
    client.on('error', () => undefined);
    client.on('end', lost);
    client.on('notification', ({ channel }) => {
      if (channel === CHANNEL) wake();
    });
    await client.query(`LISTEN ${CHANNEL}`);
    return { [Symbol.asyncDispose]: () => client.end() };
  };
