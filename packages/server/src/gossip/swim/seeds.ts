import type { Log } from '@taskmaster/engine/ports';
import { isHost } from '../datagrams/messages.ts';
import { toIPv4 } from '../datagrams/socket.ts';

/** How long a resolved name is used, and how long a failed one is not tried again, in ms. */
const RESOLVE_EVERY_MS = 5000;

interface Seed {
  readonly host: string;
  readonly port: string;
  address?: string;
  askedAt: number;
  failing: boolean;
}

/**
 * Addresses of members to contact first. Names are resolved repeatedly: a name may not resolve yet, or resolve to another address
 * after a restart. A failure is logged once, and so is its end.
 */
export class Seeds {
  #seeds: readonly Seed[];
  readonly #log: Pick<Log, 'info' | 'warn'>;
  readonly #now: () => number;
  readonly #onResolved: () => void;

  /** `onResolved` is called when an address becomes known or changes. Throws a `TypeError` for a seed that is not `host:port`. */
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

  /** Replaces the addresses. Resolved addresses of seeds that stay are kept. Invalid addresses are ignored. */
  replace(seeds: readonly string[]): void {
    const known = new Map(this.#seeds.map((seed) => [`${seed.host}:${seed.port}`, seed]));
    this.#seeds = [...new Set(seeds)].flatMap((seed) => known.get(seed) ?? parseSeed(seed) ?? []);
  }

  /** `IPv4:port` of each resolved seed. Resolves the others in the background. */
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
      if (!seed.failing) this.#log.warn({ seed: name, err }, 'a seed does not resolve; it is tried again');
      seed.failing = true;
    }
  }
}

function parseSeed(seed: string): Seed | undefined {
  const [, host, port] = /^([^:\s]+):(\d{1,5})$/.exec(seed) ?? [];
  return host && port ? { host, port, askedAt: Number.NEGATIVE_INFINITY, failing: false } : undefined;
}
