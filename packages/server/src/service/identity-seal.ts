import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** The caller of a call that a proxy or a node forwards. */
export interface CallerIdentity {
  /** `host:port`. Empty: the forwarder does not say it. */
  readonly address: string;
  /** Name of the principal. Empty: none. */
  readonly principal: string;
}

/** A header is accepted for this long, in ms. It covers clocks that differ, and a call that is on its way. */
const VALID_MS = 5 * 60_000;
/** A header is used again for this long, in ms, so that a receiver verifies one header for many calls. */
const REUSED_MS = 60_000;
/** Limits of the remembered headers. */
const MOST_HEADERS = 4_096;
/** Longer headers are not valid. */
const MOST_CHARACTERS = 2_048;
const VERSION = '1';
/** Without keys the last part of a header is this. */
const NO_SEAL = '';

interface Remembered<T> {
  readonly until: number;
  readonly value: T;
}

/**
 * Writes and reads the header in which a forwarder names its caller: `version.sender.expiry.address.principal.seal`.
 *
 *  I1  With keys, a header counts only if a process with a key of the cluster made it, and only until it expires.
 *  I2  Without keys, a header proves nothing. It has no principal then, and the reader decides whether to believe the address.
 */
export class IdentitySeal {
  readonly #keys: readonly string[];
  readonly #now: () => number;
  readonly #sender = randomBytes(6).toString('base64url');
  readonly #written = new Map<string, Remembered<string>>();
  readonly #read = new Map<string, Remembered<CallerIdentity>>();

  /** `now`: the system clock, in ms since 1970. */
  constructor(keys: readonly string[], now: () => number = Date.now) {
    this.#keys = keys;
    this.#now = now;
  }

  /** Whether a header proves anything. */
  get hasKeys(): boolean {
    return this.#keys.length > 0;
  }

  write({ address, principal }: CallerIdentity): string {
    const name = `${address} ${principal}`;
    const now = this.#now();
    const known = this.#written.get(name);
    if (known !== undefined && known.until > now) return known.value;
    const [key] = this.#keys;
    const parts = [
      VERSION,
      this.#sender,
      now + VALID_MS,
      encoded(address),
      encoded(key === undefined ? '' : principal),
    ];
    const text = parts.join('.');
    const header = `${text}.${key === undefined ? NO_SEAL : sealOf(key, text).toString('base64url')}`;
    remember(this.#written, name, { until: now + REUSED_MS, value: header });
    return header;
  }

  /** The caller in a header. Undefined: it is not valid, or has expired. */
  read(header: string): CallerIdentity | undefined {
    const now = this.#now();
    const known = this.#read.get(header);
    if (known !== undefined) return known.until > now ? known.value : undefined;
    if (header.length > MOST_CHARACTERS) return undefined;
    const end = header.lastIndexOf('.');
    const text = header.slice(0, end);
    const [version, , expiry = '', address = '', principal = '', ...rest] = text.split('.');
    const until = Number(expiry);
    // A sealed header lives no longer than its sender could have wanted.
    if (version !== VERSION || rest.length > 0 || !(until > now && until <= now + 2 * VALID_MS)) return undefined;
    const seal = Buffer.from(header.slice(end + 1), 'base64url');
    const isSealed = this.#keys.some((key) => isEqual(seal, sealOf(key, text)));
    if (this.hasKeys && !isSealed) return undefined;
    const value = { address: decoded(address), principal: this.hasKeys ? decoded(principal) : '' };
    remember(this.#read, header, { until, value });
    return value;
  }
}

function remember<T>(in_: Map<string, Remembered<T>>, key: string, value: Remembered<T>): void {
  if (in_.size >= MOST_HEADERS) in_.clear();
  in_.set(key, value);
}

const encoded = (text: string): string => Buffer.from(text, 'utf8').toString('base64url');
const decoded = (text: string): string => Buffer.from(text, 'base64url').toString('utf8');
const sealOf = (key: string, text: string): Buffer =>
  createHmac('sha256', key).update(`taskmaster identity ${text}`).digest();
const isEqual = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b);
