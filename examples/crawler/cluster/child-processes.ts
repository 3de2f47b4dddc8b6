import type { ChildProcess } from 'node:child_process';

/** Resolves when the process has ended, also when it had before. */
export function exited(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => child.once('exit', () => resolve()));
}

/** However this process ends, short of being killed itself, the child does not outlive it. */
export function killWithUs(child: ChildProcess): void {
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  child.once('exit', () => process.off('exit', kill));
}
