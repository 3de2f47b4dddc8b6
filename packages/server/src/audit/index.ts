export { openAudit } from './open-audit.ts';
