import type { Store } from '@taskmaster/engine/ports';
import type { OpenStoreOptions } from '@taskmaster/postgres';

/** A store in a database. `giveUp` ends the waits for a database that does not answer. */
export type SharedStore = Store & { giveUp(): void };

/** The name of a node that has none. Not that of the machine: another machine takes its place. */
export const LONE_NAME = 'node';

/** Stops what uses a store. A database that does not answer is waited for only so long. */
export async function stopWithin(
  graceMs: number,
  shared: SharedStore | undefined,
  stop: () => Promise<void>,
): Promise<void> {
  const timer = shared && setTimeout(() => shared.giveUp(), graceMs);
  try {
    await stop();
  } finally {
    clearTimeout(timer);
  }
}

/** Opens the store in a PostgreSQL database. Loads the driver only now: nodes with a data directory do not need it. */
export async function openSharedStore(options: OpenStoreOptions): Promise<SharedStore> {
  const { openPostgresStore } = await import('@taskmaster/postgres');
  return openPostgresStore(options);
}
