import { setFlagsFromString } from 'node:v8';

/** Of glibc, which has up to eight for each core otherwise, and keeps in each what the threads that use it have freed. */
const ARENAS = 2;

/** Only this V8 knows the flag, which it does not set by itself. */
const COUNTING_V8 = /^13\./;
const COUNT_BUFFERS = 'external-memory-accounted-in-global-limit';

/** Read whenever an isolate is made: the main thread's at the start, those of further threads with them. */
const LEAST_OLD = '--initial-old-space-size';
/** For each further thread, whatever was chosen for the main one, in MiB: their heaps are small, and there are several. */
const THREAD_LEAST_MIB = 32;

/** What V8 is told. */
export interface MemoryBounds {
  /** A part of the young generation, which may take three times this, in MiB. V8's own bound is 32. */
  readonly youngMib: number;
  /** How much the old generation may grow between two collections of everything, in percent. Default: V8 decides. */
  readonly oldGrowthPercent?: number;
  /** Nothing old is collected before it takes so much, in MiB. Default: V8 decides. */
  readonly oldLeastMib?: number;
  /**
   * Whether buffers, which are outside of V8's heap, count for the growth and for what is least. Otherwise each 64 MiB of new
   * ones, however short they live, are a reason to collect everything. Default: false.
   */
  readonly countsBuffers?: boolean;
}

/**
 * A large young generation is collected so rarely that the memory of received messages, which is not in it but kept by what
 * is, adds up to where V8 collects everything. The old one may grow by three fifths before that: with less, others wait for
 * the collector beside tasks of 1 MB; with more, large heaps keep much garbage.
 */
export const NODE_BOUNDS: MemoryBounds = { youngMib: 16, oldGrowthPercent: 60, oldLeastMib: 128, countsBuffers: true };

/**
 * Sets bounds on the memory of this program, unless they were chosen. Some can only be set at the start: for those it begins
 * anew, as the same process. Where that is not possible, on Windows, it goes on without them.
 */
export function boundMemory({ youngMib, oldGrowthPercent, oldLeastMib, countsBuffers = false }: MemoryBounds): void {
  const { execArgv, execPath, env, platform, versions } = process;
  const chosen = [...execArgv, env.NODE_OPTIONS ?? ''].join(' ').replaceAll('_', '-');
  if (countsBuffers && COUNTING_V8.test(versions.v8) && !chosen.includes(COUNT_BUFFERS)) {
    setFlagsFromString(`--${COUNT_BUFFERS}`);
  }
  if (oldLeastMib !== undefined) setFlagsFromString(`${LEAST_OLD}=${Math.min(oldLeastMib, THREAD_LEAST_MIB)}`);
  const wanted = {
    '--max-semi-space-size': youngMib,
    '--heap-growing-percent': oldGrowthPercent,
    [LEAST_OLD]: oldLeastMib,
  };
  const flags = Object.entries(wanted).flatMap(([flag, value]) =>
    value === undefined || chosen.includes(flag) ? [] : [`${flag}=${value}`],
  );
  const isBounded = flags.length === 0 && env.MALLOC_ARENA_MAX !== undefined;
  if (isBounded || platform === 'win32') return;
  const args = [process.argv0, ...flags, ...execArgv, ...process.argv.slice(1)];
  process.execve?.(execPath, args, { MALLOC_ARENA_MAX: `${ARENAS}`, ...env });
}
