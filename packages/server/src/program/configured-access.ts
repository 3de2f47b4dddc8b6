import type { Log } from '@taskmaster/engine/ports';
import type { Access } from '../access/access.ts';
import { type AccessSettings, hasAccessRules } from '../access/access-settings.ts';
import { InvalidConfigError } from './config-sections.ts';

/** The rules that the settings name. `access` is undefined if they name none. */
export interface ConfiguredAccess extends Disposable {
  readonly access: Access | undefined;
}

/** Reads the rules and follows their changes. Rejects with an `InvalidConfigError`. */
export async function openConfiguredAccess(settings: AccessSettings, log: Log): Promise<ConfiguredAccess> {
  if (!hasAccessRules(settings)) return { access: undefined, [Symbol.dispose]() {} };
  return withRules(({ openAccess }) => openAccess(settings, log));
}

/** Checks the files of the rules. Rejects with an `InvalidConfigError`. */
export async function checkAccess(settings: AccessSettings): Promise<void> {
  if (hasAccessRules(settings)) await withRules(({ readAccessState }) => readAccessState(settings));
}

/** Loads the libraries for rules only when there are some: they are an eighth of all modules of a node. */
async function withRules<T>(read: (rules: typeof import('../access/open-access.ts')) => T): Promise<T> {
  const { AccessFileError } = await import('../access/access-file.ts');
  try {
    return read(await import('../access/open-access.ts'));
  } catch (error) {
    if (error instanceof AccessFileError) throw new InvalidConfigError(error.problems);
    throw error;
  }
}
