import { type Command, CommanderError } from 'commander';
import { complain } from './complain.ts';
import { InvalidConfigError } from './config-sections.ts';
import { OutputError } from './write-output.ts';

const FAILURE = 1;
const USAGE_ERROR = 2;

/**
 * Runs the command line of a program. Its commands call `ended` with their exit code. Resolves with the exit code: 0 success,
 * 1 failure, 2 invalid command line or settings.
 */
export async function runProgram(
  args: readonly string[],
  create: (ended: (code: number) => void) => Command,
): Promise<number> {
  // The process goes on if its terminal or pipe is gone.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  let code = 0;
  const program = create((ended) => {
    code = ended;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return code;
  } catch (error) {
    // Commander throws after it has printed the help or the version, too.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE_ERROR;
    if (error instanceof OutputError) {
      complain(program.name(), error.message);
      return FAILURE;
    }
    if (!(error instanceof InvalidConfigError)) throw error;
    for (const problem of error.problems) complain(program.name(), problem);
    return USAGE_ERROR;
  }
}
