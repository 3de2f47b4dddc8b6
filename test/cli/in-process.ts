import { startCli } from '@taskmaster/cli/testing';
import type { UserShell } from './shell.ts';

/** Words without quotes, in which a shell changes nothing, and words in quotes. */
const ONLY_TASKMASTER = /^taskmaster(?: +(?:'[^']*'|"[^"$`\\!]*"|[\w.,:=/@%+^~#-])+)+$/;
/** A comment, the name of a home directory, and what does not write to the streams that its caller gives it. */
const NEEDS_SHELL = / [#~]| --(?:exec|help|version)\b/;

/** The arguments of a line of shell that does nothing but run `taskmaster`. Undefined: it needs a shell, or a process. */
export function argumentsOf(line: string): string[] | undefined {
  if (!ONLY_TASKMASTER.test(line) || NEEDS_SHELL.test(line.replace(/'[^']*'|"[^"]*"/g, "''"))) return undefined;
  const words = line.match(/(?:'[^']*'|"[^"]*"|[^ '"])+/g) ?? [];
  return words.slice(1).map((word) => word.replace(/'([^']*)'|"([^"]*)"/g, '$1$2'));
}

/** Runs `taskmaster` in this process, with the environment and the directory of the shell, and no input. */
export async function runInProcess(
  args: readonly string[],
  { dir, env }: Pick<UserShell, 'dir' | 'env'>,
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const own = { env: process.env, dir: process.cwd() };
  process.env = env;
  process.chdir(dir);
  try {
    const running = startCli(undefined, args);
    running.endInput();
    return await running.ended;
  } finally {
    process.env = own.env;
    process.chdir(own.dir);
  }
}
