import type { Access } from '../../access/access.ts';
import { AccessFileError } from '../../access/access-file.ts';
import { type AccessSettings, hasAccessRules, openAccess, readAccessState } from '../../access/open-access.ts';
import type { Log } from '../../ports/log.ts';
import { InvalidConfigError } from '../config-sections.ts';

/** The rules that the settings name. `access` is undefined if they name none. */
export interface ConfiguredAccess extends Disposable {
  readonly access: Access | undefined;
}

/** Reads the rules and follows their changes. @throws InvalidConfigError */
export function openConfiguredAccess(settings: AccessSettings, log: Log): ConfiguredAccess {
  if (!hasAccessRules(settings)) return { access: undefined, [Symbol.dispose]() {} };
  return asConfigError(() => openAccess(settings, log));
}

/** Checks the files of the rules. @throws InvalidConfigError */
export function checkAccess(settings: AccessSettings): void {
  if (hasAccessRules(settings)) asConfigError(() => readAccessState(settings));
}

function asConfigError<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof AccessFileError) throw new InvalidConfigError(error.problems);
    throw error;
  }
}
