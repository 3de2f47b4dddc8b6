export { Access } from './access.ts';
export { AccessTable } from './access-table.ts';
export { type CallerAccess, clusterAccess, unlimitedAccess } from './caller-access.ts';
