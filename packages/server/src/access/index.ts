export type { Access } from './access.ts';
export { type CallerAccess, clusterAccess, unlimitedAccess } from './caller-access.ts';
export type { GroupRight } from './rights.ts';
