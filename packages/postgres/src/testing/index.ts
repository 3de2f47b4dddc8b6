export { noPostgres, PostgresServer } from './postgres-server.ts';
