export type { Access } from './access.ts';
export { type CallerAccess, clusterAccess, unlimitedAccess } from './caller-access.ts';
