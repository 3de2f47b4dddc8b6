export { noPostgres, PostgresServer } from './postgres-server.ts';
export { SimDatabase } from './sim-database.ts';
export { openOnSim } from './sim-process.ts';
