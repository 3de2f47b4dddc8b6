import type { ChildProcess } from 'node:child_process';

/** Resolves when the process has ended, even if it ended before this call. */
export function exited(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => child.once('exit', () => resolve()));
}

/** Kills the child when this process exits. A SIGKILL of this process leaves the child running. */
export function killWithUs(child: ChildProcess): void {
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  child.once('exit', () => process.off('exit', kill));
}
