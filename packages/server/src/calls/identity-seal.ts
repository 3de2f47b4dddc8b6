import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { Memo } from '@taskmaster/proto';

/** The caller of a call that a proxy or a node forwards. */
export interface CallerIdentity {
  /** `host:port`. Empty: the forwarder does not say it. */
  readonly address: string;
  /** Name of the principal. Empty: none. */
  readonly principal: string;
}

/** What a header says. */
export interface ReadIdentity extends CallerIdentity {
  /**
   * Undefined: the header is valid now. Otherwise a process with a key of the cluster made it, but for another time or another
   * run, so that it may be a copy. The value is how far the clock of the sender is ahead, in ms; NaN: the header does not say it.
   */
  readonly outOfTimeMs: number | undefined;
}

/** A run of a receiver, whose time its senders know. */
export interface Receiver {
  readonly run: string;
  /** How far the time of the run is ahead of the time of this process, in ms. */
  readonly aheadMs: number;
}

/** The time sources of a seal, in ms. */
export interface SealTime {
  /** The system clock, since 1970. It jumps when it is set. */
  wall(): number;
  /** Time since a fixed moment. It never jumps. */
  elapsed(): number;
}

/** A header is accepted for this long, in ms. It covers a call that is on its way, and clocks that differ. */
const VALID_MS = 5 * 60_000;
/** A header is used again for this long, in ms, so that a receiver verifies one header for many calls. */
const REUSED_MS = 60_000;
/** Limits of the remembered headers. */
const MOST_HEADERS = 4_096;
/** Longer headers are not valid. */
const MOST_CHARACTERS = 2_048;
/** A header whose expiry is an instant of the system clocks. Every release reads it. */
const BY_WALL = '1';
/** A header for one run of a receiver, whose expiry is a time of that run. */
const BY_RUN = '2';
/** Without keys the last part of a header is this. */
const NO_SEAL = '';

const machine: SealTime = { wall: () => Date.now(), elapsed: () => performance.now() };

interface Remembered<T> {
  readonly until: number;
  readonly value: T;
}

/**
 * Writes and reads the header in which a forwarder names its caller: `1.sender.expiry.address.principal.seal`, or
 * `2.run.expiry.address.principal.seal`.
 *
 *  I1  With keys, a header counts only if a process with a key of the cluster made it, and only for about five minutes. So a copy
 *      of a header is soon of no use.
 *  I2  Without keys, a header proves nothing. It has no principal then, and the reader decides whether to believe the address.
 *  I3  Clocks need not agree. A receiver that finds a header out of time answers with a challenge: its run, and the time since
 *      that run began, sealed with the key. The sender then seals headers for this run, which expire by the time of the run. No
 *      other run accepts them, and nothing that sets a system clock makes them valid again.
 */
export class IdentitySeal {
  readonly #keys: readonly string[];
  readonly #time: SealTime;
  readonly #run = randomBytes(6).toString('base64url');
  readonly #written = new Memo<string, Remembered<string> & { readonly aheadMs: number }>(MOST_HEADERS);
  readonly #read = new Memo<string, Remembered<ReadIdentity>>(MOST_HEADERS);

  constructor(keys: readonly string[], time: SealTime = machine) {
    this.#keys = keys;
    this.#time = time;
  }

  /** Whether a header proves anything. */
  get hasKeys(): boolean {
    return this.#keys.length > 0;
  }

  /** `receiver`: the run that sent a challenge. Undefined: none is known, and the header expires by the system clocks. */
  write({ address, principal }: CallerIdentity, receiver?: Receiver): string {
    const name = `${receiver?.run ?? ''} ${address} ${principal}`;
    const elapsed = this.#time.elapsed();
    // How far the time by which the header expires is ahead of `elapsed`.
    const aheadMs = receiver?.aheadMs ?? this.#time.wall() - elapsed;
    const known = this.#written.get(name);
    // That time jumps when a machine sleeps, or when a system clock is set.
    const isOfUse = known !== undefined && known.until > elapsed && Math.abs(known.aheadMs - aheadMs) < REUSED_MS;
    if (isOfUse) return known.value;
    const [key] = this.#keys;
    const until = elapsed + aheadMs + VALID_MS;
    const text = [
      receiver === undefined ? BY_WALL : BY_RUN,
      receiver?.run ?? this.#run,
      Math.floor(until),
      encoded(address),
      encoded(key === undefined ? '' : principal),
    ].join('.');
    const header = `${text}.${key === undefined ? NO_SEAL : sealOf(key, `identity ${text}`).toString('base64url')}`;
    this.#written.remember(name, { until: elapsed + REUSED_MS, aheadMs, value: header });
    return header;
  }

  /** What a header says. Undefined: it is not valid. */
  read(header: string): ReadIdentity | undefined {
    const elapsed = this.#time.elapsed();
    const known = this.#read.get(header);
    if (known !== undefined) {
      return known.until > elapsed ? known.value : { ...known.value, outOfTimeMs: known.until - elapsed - VALID_MS };
    }
    if (header.length > MOST_CHARACTERS) return undefined;
    const end = header.lastIndexOf('.');
    const text = header.slice(0, end);
    const [version, run, expiry = '', address = '', principal = '', ...rest] = text.split('.');
    if ((version !== BY_WALL && version !== BY_RUN) || rest.length > 0) return undefined;
    const seal = Buffer.from(header.slice(end + 1), 'base64url');
    if (this.hasKeys && !this.#isSealed(seal, `identity ${text}`)) return undefined;
    const says = { address: decoded(address), principal: this.hasKeys ? decoded(principal) : '' };
    if (!this.hasKeys) return { ...says, outOfTimeMs: undefined };
    if (version === BY_RUN && run !== this.#run) return { ...says, outOfTimeMs: Number.NaN };
    const leftMs = Number(expiry) - (version === BY_WALL ? this.#time.wall() : elapsed);
    // A header lives no longer than its sender could have wanted.
    if (!(leftMs > 0 && leftMs <= 2 * VALID_MS)) return { ...says, outOfTimeMs: leftMs - VALID_MS };
    const value = { ...says, outOfTimeMs: undefined };
    // From now on the system clock does not matter.
    this.#read.remember(header, { until: elapsed + leftMs, value });
    return value;
  }

  /** The challenge for the sender of a header that is out of time. */
  challenge(): string {
    const text = `${this.#run}.${Math.floor(this.#time.elapsed())}`;
    const [key] = this.#keys;
    return key === undefined ? '' : `${text}.${sealOf(key, `challenge ${text}`).toString('base64url')}`;
  }

  /** The receiver that made a challenge. Undefined: no process with a key of the cluster made it. */
  receiverOf(challenge: string): Receiver | undefined {
    const [run = '', elapsed = '', seal = ''] = challenge.split('.');
    if (!this.#isSealed(Buffer.from(seal, 'base64url'), `challenge ${run}.${elapsed}`)) return undefined;
    return { run, aheadMs: Number(elapsed) - this.#time.elapsed() };
  }

  #isSealed(seal: Buffer, text: string): boolean {
    return this.#keys.some((key) => isEqual(seal, sealOf(key, text)));
  }
}

const encoded = (text: string): string => Buffer.from(text, 'utf8').toString('base64url');
const decoded = (text: string): string => Buffer.from(text, 'base64url').toString('utf8');
const sealOf = (key: string, text: string): Buffer => createHmac('sha256', key).update(`taskmaster ${text}`).digest();
const isEqual = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b);
