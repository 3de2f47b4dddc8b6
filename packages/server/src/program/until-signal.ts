/** What tells a process to stop: orchestrators, Ctrl-C, a terminal that closes. */
const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** Resolves at the first signal; a second one ends the process, except SIGHUP: both a terminal and its shell may send that. */
export function untilSignal(onFirst: (signal: string) => void): Promise<void> {
  return new Promise((resolve) => {
    let first = true;
    for (const name of STOP_SIGNALS) {
      process.on(name, () => {
        if (!first && name === 'SIGHUP') return;
        if (!first) process.exit(1);
        first = false;
        onFirst(name);
        resolve();
      });
    }
  });
}
