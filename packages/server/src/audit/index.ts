export { AuditLog } from './audit-log.ts';
export { openAudit } from './open-audit.ts';
