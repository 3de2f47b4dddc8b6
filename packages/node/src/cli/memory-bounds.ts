const YOUNG_FLAG = '--max-semi-space-size';

/**
 * What V8's young generation may take is three times this. It grows to 32 by default, and then is collected so rarely that
 * the memory of received messages, which is not in it but kept by what is, adds up to where V8 collects everything.
 */
const YOUNG_MIB = 16;

/** Of glibc, which has up to eight for each core otherwise, and keeps in each what the threads that use it have freed. */
const ARENAS = 2;

/**
 * Begins this program anew, as the same process, with bounds on its memory that can only be set at the start, unless they
 * were chosen. Where that is not possible, on Windows, it goes on without.
 */
export function boundMemory(): void {
  const { execArgv, execPath, env, platform } = process;
  const chosen = [...execArgv, env.NODE_OPTIONS ?? ''].join(' ').replaceAll('_', '-');
  const flags = chosen.includes(YOUNG_FLAG) ? [] : [`${YOUNG_FLAG}=${YOUNG_MIB}`];
  const isBounded = flags.length === 0 && env.MALLOC_ARENA_MAX !== undefined;
  if (isBounded || platform === 'win32') return;
  const args = [process.argv0, ...flags, ...execArgv, ...process.argv.slice(1)];
  process.execve?.(execPath, args, { MALLOC_ARENA_MAX: `${ARENAS}`, ...env });
}
