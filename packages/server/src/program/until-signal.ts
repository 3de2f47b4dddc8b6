/** Signals of orchestrators, of Ctrl-C and of a closing terminal. */
const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** Resolves at the first signal. A second signal exits, except SIGHUP: a terminal and its shell may each send one. */
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
