import type { Log } from '@taskmaster/engine/ports';
import { FileChanges } from '../ports/file-changes.ts';
import { readPlainFile, readPrivateFile } from '../ports/private-file.ts';
import { Access, type AccessState } from './access.ts';
import { AccessFileError, parseAccessFile } from './access-file.ts';
import type { AccessSettings } from './access-settings.ts';
import { AccessTable } from './access-table.ts';
import { type JwtKeys, readKeySet, readPublicKey } from './jwt-keys.ts';

/** How often the files are checked for changes, in ms. */
const CHECK_MS = 500;

/** Reads the files that the settings name. @throws AccessFileError with all problems. */
export function readAccessState({ file, jwt }: AccessSettings): AccessState {
  const problems: string[] = [];
  const attempt = <T>(setting: string, read: () => T): T | undefined => {
    try {
      return read();
    } catch (error) {
      const found = error instanceof AccessFileError ? error.problems : [messageOf(error)];
      problems.push(...found.map((problem) => `${setting}: ${problem}`));
      return undefined;
    }
  };
  const table =
    file === ''
      ? new AccessTable({ principals: [] })
      : attempt('access.file', () => parseAccessFile(readPrivateFile(file)));
  let keys: JwtKeys | undefined;
  if (jwt.keyFile !== '' && jwt.jwksFile !== '') problems.push('access.jwt: set keyFile or jwksFile, not both');
  else if (jwt.keyFile !== '') keys = attempt('access.jwt.keyFile', () => readPublicKey(readPlainFile(jwt.keyFile)));
  else if (jwt.jwksFile !== '') {
    keys = attempt('access.jwt.jwksFile', () => readKeySet(readPlainFile(jwt.jwksFile)));
  }
  if (jwt.keyFile !== '' || jwt.jwksFile !== '') {
    for (const needed of ['issuer', 'audience'] as const) {
      if (jwt[needed] === '') problems.push(`access.jwt.${needed}: is needed to check JWTs`);
    }
    if (file === '') problems.push('access.file: is needed beside access.jwt: it has the rights of the subjects');
  }
  if (table === undefined || problems.length > 0) throw new AccessFileError(problems);
  const { issuer, audience } = jwt;
  return { table, jwt: keys && { keys, rules: { issuer, audience } } };
}

/** Rules that are read again when their files change. */
export interface OpenAccess extends Disposable {
  readonly access: Access;
}

/**
 * Reads the rules and follows changes of the files. If a changed file cannot be used, the old rules stay in force and the log
 * says why. @throws AccessFileError
 */
export function openAccess(settings: AccessSettings, log: Log, checkMs: number = CHECK_MS): OpenAccess {
  const files = [settings.file, settings.jwt.keyFile, settings.jwt.jwksFile].filter((file) => file !== '');
  const reload = (): void => {
    try {
      access.replace(readAccessState(settings));
      log.info({ files, principals: access.table.size }, 'the access rules have changed and are in force');
    } catch (error) {
      const problems = error instanceof AccessFileError ? error.problems : [messageOf(error)];
      access.reloadFailed = true;
      log.error({ files, problems }, 'the changed access rules cannot be used: the old ones stay in force');
    }
  };
  const changes = new FileChanges(files, checkMs, reload);
  let access: Access;
  try {
    access = new Access(readAccessState(settings));
  } catch (error) {
    changes[Symbol.dispose]();
    throw error;
  }
  return { access, [Symbol.dispose]: () => changes[Symbol.dispose]() };
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
