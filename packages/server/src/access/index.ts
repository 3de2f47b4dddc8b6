export { Access } from './access.ts';
export { AccessFileError, parseAccessFile } from './access-file.ts';
export { type CallerAccess, unlimitedAccess } from './caller-access.ts';
export { credentialOf } from './credential.ts';
export { type AccessSettings, hasAccessRules, openAccess, readAccessState } from './open-access.ts';
export { type GroupRight, groupRights, type Right, rights } from './rights.ts';
export { hashOfToken, newToken } from './tokens.ts';
