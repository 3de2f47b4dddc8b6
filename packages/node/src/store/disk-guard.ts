import { ReserveFile } from './reserve-file.ts';

/** Time between two checks of the free space, in ms. */
const DEFAULT_INTERVAL_MS = 200;

/** RocksDB writes each byte to the write-ahead log, to a file and later, by compaction, to files of deeper levels. */
const WRITTEN_PER_BYTE = 4;

export interface DiskGuardOptions {
  readonly dir: string;
  /** Size of the reserve file. */
  readonly reserveBytes: number;
  /** Free space beside the reserve file below which the disk counts as full. */
  readonly shortBelowBytes: number;
  /** Free bytes for this process on the file system of `dir`. */
  readonly freeBytes: () => Promise<number>;
  /** Tries a synced write and returns whether it worked. Called only after a write has found no space. */
  readonly probe: () => Promise<boolean>;
  readonly onChange: (state: DiskState) => void;
  readonly log: (message: string, error?: unknown) => void;
  readonly intervalMs?: number;
}

export type DiskState = { readonly kind: 'enough' } | { readonly kind: 'short'; readonly freeBytes: number };

/**
 * Watches the free space, so that the store reports a full disk while it can still write.
 *
 *     free space   ≥ shortBelowBytes      enough
 *                  < shortBelowBytes      short: new work should be refused; the rest is for work that frees space
 *                  < shortBelowBytes / 4  short, and the reserve file is deleted to have more space for this work
 *     a write found no space              short, and the reserve file is deleted at once
 *
 * The state becomes `enough` again when the reserve file is back and a quarter more than `shortBelowBytes` is free, so that the
 * state does not flicker. After a failed write, a probe must succeed, too: RocksDB needs some seconds to recover.
 */
export class DiskGuard {
  readonly #options: DiskGuardOptions;
  readonly #reserve: ReserveFile;
  #state: DiskState = { kind: 'enough' };
  #free = Number.POSITIVE_INFINITY;
  #submitted = 0;
  #writesFail = false;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(options: DiskGuardOptions) {
    this.#options = options;
    this.#reserve = new ReserveFile(options.dir, options.reserveBytes);
  }

  get state(): DiskState {
    return this.#state;
  }

  /** As of the latest check. */
  get freeBytes(): number {
    return this.#free;
  }

  /** Resolves when the state is known. Creates the reserve and watches the disk in the background. */
  async start(): Promise<void> {
    await this.#measure();
    if (this.#free < this.#threshold) this.#become({ kind: 'short', freeBytes: this.#free });
    void this.look();
    this.#timer = setInterval(() => void this.look(), this.#options.intervalMs ?? DEFAULT_INTERVAL_MS);
    this.#timer.unref();
  }

  /** Counts bytes that are being written. Checks the free space earlier if they may have changed the state. */
  submitted(bytes: number): void {
    this.#submitted += bytes * WRITTEN_PER_BYTE;
    const room = this.#free - this.#threshold;
    if (this.#submitted > room / 2 && this.#state.kind === 'enough') void this.look();
  }

  /** Called after a write has found no space. */
  ranOut(): void {
    this.#writesFail = true;
    this.#become({ kind: 'short', freeBytes: 0 });
    void this.look();
  }

  /** Checks the free space now, or again after a check in progress. Resolves after that check. */
  look(): Promise<void> {
    if (this.#closing.signal.aborted) return Promise.resolve();
    if (this.#looking === undefined) {
      this.#looking = this.#lookOnce().finally(() => {
        this.#looking = undefined;
        this.#next = undefined;
      });
      return this.#looking;
    }
    this.#next ??= this.#looking.then(() => this.look());
    return this.#next;
  }

  /** Stops watching. The reserve stays. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#timer);
    await this.#looking;
  }

  get #threshold(): number {
    return this.#options.shortBelowBytes;
  }

  async #lookOnce(): Promise<void> {
    try {
      await this.#measure();
      if (this.#writesFail || this.#free < this.#threshold / 4) await this.#giveUpReserve();
      if (this.#state.kind === 'short') await this.#mayBeEnough();
      else await this.#mayBeShort();
    } catch (error) {
      this.#options.log('cannot watch the free space', error);
    }
  }

  async #measure(): Promise<void> {
    this.#submitted = 0;
    this.#free = await this.#options.freeBytes();
  }

  async #giveUpReserve(): Promise<void> {
    if (!(await this.#reserve.exists())) return;
    await this.#reserve.release();
    this.#options.log('the reserve file was deleted, so that renewals and completions can be written');
    await this.#measure();
  }

  async #mayBeShort(): Promise<void> {
    const enough = this.#free >= this.#threshold && (await this.#takeReserve());
    if (!enough) this.#become({ kind: 'short', freeBytes: this.#free });
  }

  async #mayBeEnough(): Promise<void> {
    const wanted = this.#threshold * 1.25;
    if (this.#writesFail) {
      if (!(await this.#options.probe())) return;
      this.#writesFail = false;
    }
    if (this.#free < wanted || !(await this.#takeReserve()) || this.#free < wanted) return;
    this.#become({ kind: 'enough' });
  }

  /** Creates the reserve if it is missing. Returns false if there is no space for it. */
  async #takeReserve(): Promise<boolean> {
    if (await this.#reserve.exists()) return true;
    if (this.#free < this.#threshold + this.#reserve.bytes) return false;
    const taken = await this.#reserve.take(this.#closing.signal);
    await this.#measure();
    return taken;
  }

  #become(state: DiskState): void {
    if (state.kind === this.#state.kind || this.#closing.signal.aborted) return;
    this.#state = state;
    this.#options.onChange(state);
  }
}
