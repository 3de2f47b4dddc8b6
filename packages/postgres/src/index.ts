// A store in a PostgreSQL database, for nodes that name one.

export {
  type AcceptLossOptions,
  acceptStoreLoss,
  type DatabaseStore,
  type OpenStoreOptions,
  openPostgresStore,
  openStoreToRestore,
} from './open-store.ts';
