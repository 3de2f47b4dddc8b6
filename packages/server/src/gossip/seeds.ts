import type { Log } from '../ports/log.ts';
import { isHost } from './messages.ts';
import { toIPv4 } from './socket.ts';

/** How long an answer of the name service is used, and how long one waits after a failure, in ms. */
const RESOLVE_EVERY_MS = 5000;

interface Seed {
  readonly host: string;
  readonly port: string;
  address?: string;
  askedAt: number;
  failing: boolean;
}

/**
 * Addresses to begin with. Names are resolved again and again, since they may not resolve yet, or resolve to another
 * address after a restart. What fails is said once, and once more when it works.
 */
export class Seeds {
  #seeds: readonly Seed[];
  readonly #log: Pick<Log, 'info' | 'warn'>;
  readonly #now: () => number;
  readonly #onResolved: () => void;

  /** `onResolved` is called when an address became known or changed. Throws a TypeError for what is not `host:port`. */
  constructor(
    seeds: readonly string[],
    log: Pick<Log, 'info' | 'warn'>,
    onResolved: () => void = () => {},
    now: () => number = () => performance.now(),
  ) {
    this.#seeds = seeds.map((seed) => {
      const parsed = parseSeed(seed);
      if (!parsed) throw new TypeError(`seed ${JSON.stringify(seed)} is not host:port`);
      return parsed;
    });
    this.#log = log;
    this.#onResolved = onResolved;
    this.#now = now;
  }

  /** Other addresses from now on; what is known of those that stay is kept, and what is none is passed over. */
  replace(seeds: readonly string[]): void {
    const known = new Map(this.#seeds.map((seed) => [`${seed.host}:${seed.port}`, seed]));
    this.#seeds = [...new Set(seeds)].flatMap((seed) => known.get(seed) ?? parseSeed(seed) ?? []);
  }

  /** `IPv4:port` of each seed that resolved so far. Asks for the others in the background. */
  addresses(): string[] {
    for (const seed of this.#seeds) {
      if (this.#now() - seed.askedAt < RESOLVE_EVERY_MS) continue;
      seed.askedAt = this.#now();
      void this.#resolve(seed);
    }
    return this.#seeds.map(({ address, port }) => `${address}:${port}`).filter(isHost);
  }

  async #resolve(seed: Seed): Promise<void> {
    const name = `${seed.host}:${seed.port}`;
    try {
      const address = await toIPv4(seed.host);
      const isNew = address !== seed.address;
      seed.address = address;
      if (isNew) this.#onResolved();
      if (seed.failing) this.#log.info({ seed: name, address: seed.address }, 'a seed resolves again');
      seed.failing = false;
    } catch (err) {
      if (!seed.failing) this.#log.warn({ seed: name, err }, 'a seed does not resolve; it is asked for again');
      seed.failing = true;
    }
  }
}

function parseSeed(seed: string): Seed | undefined {
  const [, host, port] = /^([^:\s]+):(\d{1,5})$/.exec(seed) ?? [];
  return host && port ? { host, port, askedAt: Number.NEGATIVE_INFINITY, failing: false } : undefined;
}
