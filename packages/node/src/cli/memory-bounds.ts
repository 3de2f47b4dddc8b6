/** Of glibc, which has up to eight for each core otherwise, and keeps in each what the threads that use it have freed. */
const ARENAS = 2;

/** What V8 is told at the start. */
export interface MemoryBounds {
  /** A part of the young generation, which may take three times this. V8's own bound is 32 MiB. */
  readonly youngMib: number;
  /** How much the old generation may grow between two collections of everything, in percent. Default: V8 decides. */
  readonly oldGrowthPercent?: number;
}

/**
 * A large young generation is collected so rarely that the memory of received messages, which is not in it but kept by what
 * is, adds up to where V8 collects everything.
 */
export const NODE_BOUNDS: MemoryBounds = { youngMib: 16 };

/**
 * Begins this program anew, as the same process, with bounds on its memory that can only be set at the start, unless they
 * were chosen. Where that is not possible, on Windows, it goes on without.
 */
export function boundMemory({ youngMib, oldGrowthPercent }: MemoryBounds): void {
  const { execArgv, execPath, env, platform } = process;
  const chosen = [...execArgv, env.NODE_OPTIONS ?? ''].join(' ').replaceAll('_', '-');
  const wanted = { '--max-semi-space-size': youngMib, '--heap-growing-percent': oldGrowthPercent };
  const flags = Object.entries(wanted).flatMap(([flag, value]) =>
    value === undefined || chosen.includes(flag) ? [] : [`${flag}=${value}`],
  );
  const isBounded = flags.length === 0 && env.MALLOC_ARENA_MAX !== undefined;
  if (isBounded || platform === 'win32') return;
  const args = [process.argv0, ...flags, ...execArgv, ...process.argv.slice(1)];
  process.execve?.(execPath, args, { MALLOC_ARENA_MAX: `${ARENAS}`, ...env });
}
