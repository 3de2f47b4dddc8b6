import { readFileSync } from 'node:fs';
import { namesOf } from '../setting-names.ts';

/** Where a program finds its settings. */
export interface EarlySources {
  /** Arguments of the program. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * The values of some settings as text, without the modules that load and check all settings: a program that is executed again
 * would load them twice. `names`: in the form `engine.cacheBytes`. Unreadable sources count as empty. The program reads and
 * checks its settings again, and then reports problems.
 */
export async function earlySettings(
  names: readonly string[],
  { args, env }: EarlySources,
): Promise<ReadonlyMap<string, string>> {
  const file = flagIn(args, '--config');
  const inFile = file === undefined ? undefined : await readYaml(file);
  const found = new Map<string, string>();
  for (const name of names) {
    const path = name.split('.');
    const { flag, env: variable } = namesOf(path);
    const value = flagIn(args, flag) ?? env[variable] ?? valueAt(inFile, path);
    if (value !== undefined) found.set(name, value);
  }
  return found;
}

/** The value of the last such flag, as `--flag value` or `--flag=value`. */
function flagIn(args: readonly string[], flag: string): string | undefined {
  let value: string | undefined;
  for (const [at, arg] of args.entries()) {
    if (arg === '--') break;
    if (arg === flag) value = args[at + 1];
    else if (arg.startsWith(`${flag}=`)) value = arg.slice(flag.length + 1);
  }
  return value;
}

async function readYaml(path: string): Promise<unknown> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
  const { parseDocument } = await import('yaml');
  const document = parseDocument(text);
  return document.errors.length > 0 ? undefined : document.toJS();
}

function valueAt(tree: unknown, path: readonly string[]): string | undefined {
  const value = path.reduce<unknown>(
    (inner, key) => (typeof inner === 'object' && inner !== null ? Reflect.get(inner, key) : undefined),
    tree,
  );
  return value === undefined || value === null ? undefined : String(value);
}
