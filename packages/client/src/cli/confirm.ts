import { createInterface } from 'node:readline/promises';
import { UsageError } from './output/cli-errors.ts';
import type { Session } from './session.ts';
import type { Shell } from './shell.ts';

/**
 * Before anything else is done: what cannot be undone is asked about, unless `--yes` says not to.
 * @param does what `--yes` does without asking.
 * @throws UsageError when there is nobody to ask.
 */
export function assertCanAsk({ stdin, err, out }: Shell, yes: boolean, does: string): void {
  const canAsk = stdin.isTTY === true && err.isTTY === true && !out.json;
  if (!yes && !canAsk) throw new UsageError(`there is no terminal to ask on; --yes ${does} without asking`);
}

/** Asks on the terminal. Anything but yes is no. */
export async function isConfirmed({ stdin, err, signal }: Session, question: string): Promise<boolean> {
  const prompt = createInterface({ input: stdin, output: err });
  // The terminal is read key by key meanwhile: Ctrl-C comes as a key, not as a signal.
  prompt.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  try {
    const answer = await prompt.question(`${question} [y/N] `, { signal });
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    prompt.close();
  }
}
