import { type Command, CommanderError } from 'commander';
import { InvalidConfigError } from './config-sections.ts';

const USAGE_ERROR = 2;

/**
 * Runs the command line of a program whose commands tell how they `ended`. Resolves with the exit code: 0 done, 1 failed,
 * 2 the command line or the settings are wrong.
 */
export async function runProgram(
  args: readonly string[],
  create: (ended: (code: number) => void) => Command,
): Promise<number> {
  // What nobody reads any more, as its terminal or pipe is gone, is no reason to end in the midst of work.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  let code = 0;
  const program = create((ended) => {
    code = ended;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return code;
  } catch (error) {
    // Help and version are errors to commander too; they have been printed.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE_ERROR;
    if (!(error instanceof InvalidConfigError)) throw error;
    for (const problem of error.problems) process.stderr.write(`${program.name()}: ${problem}\n`);
    return USAGE_ERROR;
  }
}
