// A store in a PostgreSQL database, for nodes that name one.

export { type AcceptLossOptions, acceptStoreLoss, type OpenStoreOptions, openPostgresStore } from './open-store.ts';
