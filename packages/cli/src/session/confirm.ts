import { createInterface } from 'node:readline/promises';
import { escapeControls } from '@taskmaster/proto';
import { UsageError } from '../views/cli-errors.ts';
import type { Shell } from '../views/output.ts';
import type { Session } from './session.ts';

/**
 * Checks that the command can ask for confirmation, or does not have to because of `--yes`. Call it before any change.
 * @param does what the command does, for the message: `deletes q`.
 * @throws UsageError without `--yes` and without a terminal.
 */
export function assertCanAsk({ stdin, err, out }: Shell, yes: boolean, does: string): void {
  const canAsk = stdin.isTTY === true && err.isTerminal && !out.json;
  if (!yes && !canAsk) throw new UsageError(`confirmation needs a terminal; --yes ${does} without asking`);
}

/** Asks on the terminal. Only `y` and `yes` confirm. */
export async function isConfirmed({ stdin, err, signal }: Session, question: string): Promise<boolean> {
  const prompt = createInterface({ input: stdin, output: err.stream });
  // During the prompt Ctrl-C arrives as a key and not as a signal.
  prompt.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  try {
    const answer = await prompt.question(`${escapeControls(question)} [y/N] `, { signal });
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    prompt.close();
  }
}
