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

/** A line that runs `taskmaster` and gives its output to another program, or to a file. */
interface Piped {
  readonly args: string[];
  /** The line of shell that reads the output. */
  readonly reader: string;
  /** False if the exit code is that of the reader. */
  readonly ownCode: boolean;
}

/** The parts of such a line. Undefined: it needs a shell, or writes bytes that are no text, or to another file than a new one. */
export function pipeOf(line: string): Piped | undefined {
  const [, first = '', operator = '', rest = ''] = /^((?:'[^']*'|"[^"]*"|[^'"|>])*?) ([|>]) (.*)$/.exec(line) ?? [];
  const args = argumentsOf(first);
  if (args === undefined || args.includes('--raw')) return undefined;
  if (operator === '|') return { args, reader: rest, ownCode: false };
  return /^[\w.]+$/.test(rest) ? { args, reader: `cat > ${rest}`, ownCode: true } : undefined;
}

/** Runs such a line: `taskmaster` in this process, and the reader in a shell. */
export async function runPiped({ args, reader, ownCode }: Piped, shell: UserShell): Promise<EndedInProcess> {
  const own = await runInProcess(args, shell);
  const read = await shell.run(reader, {}, own.stdout);
  const code = ownCode ? own.code : (read.code ?? 1);
  return { code, stdout: read.stdout, stderr: own.stderr + read.stderr };
}

interface EndedInProcess {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `taskmaster` in this process, with the environment and the directory of the shell, and no input. */
export async function runInProcess(
  args: readonly string[],
  { dir, env }: Pick<UserShell, 'dir' | 'env'>,
): Promise<EndedInProcess> {
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
