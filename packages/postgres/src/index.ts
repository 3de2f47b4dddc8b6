// A store in a PostgreSQL database, for nodes that name one.

export {
  type AcceptLossOptions,
  acceptStoreLoss,
  type DatabaseStore,
  type OpenStoreOptions,
  openPostgresStore,
  openStoreToRestore,
} from './open-store.ts';
export type { StatementKind } from './pg-session.ts';
export type { DatabaseFigures } from './postgres-store.ts';
