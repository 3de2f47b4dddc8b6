const FLAG = '--max-semi-space-size';

/**
 * What V8's young generation may take is three times this. It grows to 32 by default, and then is collected so rarely that
 * the memory of received messages, which is not in it but kept by what is, adds up to where V8 collects everything.
 */
const MIB = 8;

/**
 * Begins this program anew, as the same process, with a small young generation, unless its size was chosen: it can only be
 * set at the start. Where a process cannot be begun anew, on Windows, it stays as large as it is.
 */
export function boundYoungGeneration(): void {
  const { execArgv, execPath, env } = process;
  const chosen = [...execArgv, env.NODE_OPTIONS ?? ''].some((options) => options.includes(FLAG));
  if (chosen || process.platform === 'win32') return;
  process.execve?.(execPath, [process.argv0, `${FLAG}=${MIB}`, ...execArgv, ...process.argv.slice(1)], env);
}
