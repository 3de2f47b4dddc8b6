export { describeOnPostgres, WITHOUT_FSYNC } from './describe-on-postgres.ts';
export { freePort, noPostgres, PostgresServer } from './postgres-server.ts';
export { SimDatabase } from './sim-database.ts';
export { openOnSim } from './sim-process.ts';
