import { setFlagsFromString } from 'node:v8';

/** Memory arenas of glibc. By default it has up to eight per core, and each keeps memory that its threads have freed. */
const ARENAS = 2;

/**
 * Smallest buffer, in bytes, that glibc gives back to the system when it is freed. It is also glibc's own first value, which
 * grows to the largest buffer that was freed: then the heap keeps the memory of large payloads, several hundred MiB.
 */
const GIVEN_BACK_BYTES = 128 * 1024;

/** Versions of V8 that have these flags. */
const KNOWN_V8 = /^13\./;
/** Its default is off. */
const COUNT_BUFFERS = 'external-memory-accounted-in-global-limit';
/**
 * V8's guess which objects will live long, by the place in the code that makes them. It takes requests in flight for such, and
 * then keeps all that they refer to until it collects the whole heap. Bench row B4: some processes took 26 µs a task, others 22.
 */
const GUESS_AGE = 'allocation-site-pretenuring';

/**
 * V8 waits for 8 calls of a function before it collects types, and for 400 before it compiles it for speed. A quiet node makes so
 * few calls that V8 interprets them for minutes. Bench `peers`, workload enqueue-to-waiting: 0.84 of the time.
 */
const LATE_TYPES = 'lazy-feedback-allocation';
const CALLS_UNTIL_FAST = 'invocation-count-for-maglev';
const FEW_CALLS = 40;

/** V8 reads this flag when a thread starts: for the main thread at the start of the process. */
const LEAST_OLD = '--initial-old-space-size';
/** Its value for the other threads, in MiB: there are several, and their heaps are small. */
const THREAD_LEAST_MIB = 32;

/** Memory bounds for V8. */
export interface MemoryBounds {
  /** Size of a semi-space in MiB. The young generation has three. V8's default is 32. */
  readonly youngMib: number;
  /** Growth of the old generation between two full collections, in percent. Undefined: V8 decides. */
  readonly oldGrowthPercent?: number;
  /** Size of the old generation before its first full collection, in MiB. Undefined: V8 decides. */
  readonly oldLeastMib?: number;
  /** Largest size of the old generation in MiB, beyond which the process ends. Undefined: V8 decides. */
  readonly oldMostMib?: number;
  /**
   * True if buffers, which are outside of V8's heap, count towards these bounds. Otherwise every 64 MiB of new buffers cause
   * a full collection, even if the buffers are short-lived. Default: false.
   */
  readonly countsBuffers?: boolean;
  /** True if large buffers that are freed go back to the system, which makes large payloads a third slower. Default: false. */
  readonly givesBack?: boolean;
}

/**
 * Bounds the memory of this program, except for bounds that the command line or `NODE_OPTIONS` already sets. V8 and glibc read
 * some of them only at the start of a process. For those, the program is executed again in the same process. Windows cannot do
 * this: there the program runs without them. Call it before the rest of the program is loaded, which would be loaded twice.
 */
export function boundMemory(bounds: MemoryBounds): void {
  const { youngMib, oldGrowthPercent, oldLeastMib, oldMostMib, countsBuffers = false, givesBack = false } = bounds;
  const { execArgv, execPath, env, platform } = process;
  const chosen = chosenFlags();
  const isKnown = KNOWN_V8.test(process.versions.v8);
  if (isKnown && countsBuffers && !chosen.includes(COUNT_BUFFERS)) setFlagsFromString(`--${COUNT_BUFFERS}`);
  if (isKnown && !chosen.includes(GUESS_AGE)) setFlagsFromString(`--no-${GUESS_AGE}`);
  // 0 is V8's own choice, also for the threads.
  if (oldLeastMib !== undefined && !chosen.includes(`${LEAST_OLD}=0`))
    setFlagsFromString(`${LEAST_OLD}=${Math.min(oldLeastMib, THREAD_LEAST_MIB)}`);
  const wanted = {
    '--max-semi-space-size': youngMib,
    '--heap-growing-percent': oldGrowthPercent,
    '--max-old-space-size': oldMostMib,
    [LEAST_OLD]: oldLeastMib,
  };
  const flags = Object.entries(wanted).flatMap(([flag, value]) =>
    value === undefined || chosen.includes(flag) ? [] : [`${flag}=${value}`],
  );
  const isBounded = flags.length === 0 && env.MALLOC_ARENA_MAX !== undefined;
  if (isBounded || platform === 'win32') return;
  const args = [process.argv0, ...flags, ...execArgv, ...process.argv.slice(1)];
  const allocator = {
    MALLOC_ARENA_MAX: `${ARENAS}`,
    ...(givesBack && { MALLOC_MMAP_THRESHOLD_: `${GIVEN_BACK_BYTES}` }),
  };
  process.execve?.(execPath, args, { ...allocator, ...env });
}

/**
 * Makes V8 compile functions for speed after few calls, unless the command line or `NODE_OPTIONS` says when. Call it when the
 * modules are loaded: their code runs once, and would be slower.
 */
export function compileEarly(): void {
  if (!KNOWN_V8.test(process.versions.v8)) return;
  const chosen = chosenFlags();
  if (!chosen.includes(LATE_TYPES)) setFlagsFromString(`--no-${LATE_TYPES}`);
  if (!chosen.includes(CALLS_UNTIL_FAST)) setFlagsFromString(`--${CALLS_UNTIL_FAST}=${FEW_CALLS}`);
}

/** What the command line and `NODE_OPTIONS` say. */
const chosenFlags = (): string => [...process.execArgv, process.env.NODE_OPTIONS ?? ''].join(' ').replaceAll('_', '-');
