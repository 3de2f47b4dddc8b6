import { CHANNEL } from './outbox.ts';

/** A client of the package `pg`, with a connection of its own. */
export interface PgListener {
  query(text: string): Promise<unknown>;
  on(event: 'notification', listener: (message: { readonly channel: string }) => void): unknown;
  removeListener(event: 'notification', listener: (message: { readonly channel: string }) => void): unknown;
}

/**
 * For the `listen` of a relay: PostgreSQL tells it of commits. `client`: a connected `pg.Client` that nothing else uses, not
 * through a pooler of transactions. If its connection is lost, the relay goes on with polls.
 */
export const pgListen =
  (client: PgListener) =>
  async (wake: () => void): Promise<AsyncDisposable> => {
    const heard = ({ channel }: { readonly channel: string }): void => {
      if (channel === CHANNEL) wake();
    };
    client.on('notification', heard);
    await client.query(`LISTEN ${CHANNEL}`);
    return {
      [Symbol.asyncDispose]: async () => {
        client.removeListener('notification', heard);
      },
    };
  };
