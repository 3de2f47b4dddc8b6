import type { DatabaseStore, OpenStoreOptions } from '@taskmaster/postgres';

export type SharedStore = DatabaseStore;

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

/** Opens a store in a PostgreSQL database for a restore. */
export async function openSharedStoreToRestore(options: Omit<OpenStoreOptions, 'name'>): Promise<SharedStore> {
  const { openStoreToRestore } = await import('@taskmaster/postgres');
  return openStoreToRestore(options);
}
