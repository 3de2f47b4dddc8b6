import { latin1Of } from '@taskmaster/engine/domain';
import {
  Family,
  type KeyRange,
  reuseMemory,
  StoreClosedError,
  StoreFailedError,
  StoreFullError,
  StoreLostError,
  visitWrites,
} from '@taskmaster/engine/ports';
import { changesOf } from './changes.ts';
import { type Commit, DatabaseError, type Session } from './database.ts';
import type { After, Link } from './link.ts';

type Work =
  /** `alone`: not in one commit with others, and refused alone. */
  | { readonly kind: 'write'; readonly records: Uint8Array<ArrayBuffer>; readonly alone?: boolean }
  | { readonly kind: 'deleteRange'; readonly family: Family; readonly range: KeyRange }
  /** Asks whether this process still has its name. */
  | { readonly kind: 'check' };

type Pending<W extends Work = Work> = W & PromiseWithResolvers<void>;
type PendingWrite = Pending<Extract<Work, { kind: 'write' }>>;
type PendingDeletion = Pending<Extract<Work, { kind: 'deleteRange' }>>;

/** Rows that one commit deletes of a range: with more, the commits of callers would wait for long. */
const ROWS_OF_SLICE = 2_000;
/** The same of payloads, of which each may have 3.5 MB in pages of its own: 200 of 3 MB take 3 s. */
const PAYLOADS_OF_SLICE = 200;
const rowsOfSlice = (family: Family): number => (family === Family.data ? PAYLOADS_OF_SLICE : ROWS_OF_SLICE);
/** Most bytes of the batches of one commit, unless a batch has more. */
const BYTES_OF_COMMIT = 16 * 1024 * 1024;

const NOTHING: Commit['changes'] = new Map();

export interface CommitterOptions {
  readonly link: Link;
  readonly after: After;
  /** The database had no space for a commit. */
  readonly onFull: () => void;
  /** The database will not accept a commit. */
  readonly onFailed: (cause: StoreFailedError) => void;
}

/**
 * Everything that is written goes through here, in order, one statement at a time (R4). What arrives meanwhile joins the next
 * one.
 *
 *  R1 A commit is applied only if this process has its name. If not, the store is lost to it.
 *  R2 Commits have consecutive numbers, so none is applied twice. If an answer is lost, the row of the node says whether the
 *     commit was applied.
 *
 * Ranges are deleted in slices, one range after the other. Meanwhile other commits go on, but none that has rows of such a range.
 */
export class Committer {
  readonly #options: CommitterOptions;
  readonly #link: Link;
  #queue: Pending[] = [];
  /** The first of them is in progress. */
  readonly #deletions: PendingDeletion[] = [];
  #running: Promise<void> | undefined;
  /** When the work began that is in progress. */
  #beganMs: number | undefined;
  #failure: Error | undefined;
  /** A refusal that its callers may not know yet. Until then later writes, which may depend on it, are refused, too. */
  #refusal: StoreFullError | undefined;

  constructor(options: CommitterOptions) {
    this.#options = options;
    this.#link = options.link;
  }

  submit(work: Work): Promise<void> {
    const refused = this.#failure ?? this.#refusal;
    if (refused !== undefined) return Promise.reject(refused);
    const resolvers = Promise.withResolvers<void>();
    this.#queue.push({ ...work, ...resolvers });
    this.#running ??= this.#run();
    return resolvers.promise;
  }

  /** True while a commit is in progress or waits. */
  get isBusy(): boolean {
    return this.#running !== undefined;
  }

  /** For how long the work in progress has waited for the database, in ms. */
  get waitingMs(): number {
    return this.#beganMs === undefined ? 0 : performance.now() - this.#beganMs;
  }

  /** Resolves when everything that was submitted is over. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // writes of one turn form one commit
    while (this.#queue.length > 0 || this.#deletions.length > 0) {
      const first = this.#queue[0];
      if (first?.kind === 'check') {
        this.#queue.shift();
        await this.#attempt([first], () => this.#check());
        continue;
      }
      // One that comes behind the writes may have rows of them.
      const [deleting] = this.#deletions;
      const writes = this.#takeWrites();
      if (writes.length === 0) await this.#commit(writes, this.#deletions[0]);
      else await this.#commit(writes, writes[0]?.alone === true ? undefined : deleting);
    }
    this.#running = undefined;
  }

  /** Takes what the next commit writes. Deletions before and between that begin to wait for their turns. */
  #takeWrites(): PendingWrite[] {
    const taken: PendingWrite[] = [];
    let bytes = 0;
    let passed = 0;
    for (const work of this.#queue) {
      if (work.kind === 'check') break;
      if (work.kind === 'deleteRange') {
        this.#deletions.push(work);
        passed++;
        continue;
      }
      bytes += work.records.byteLength;
      if (taken.length > 0 && (bytes > BYTES_OF_COMMIT || work.alone)) break;
      if (this.#deletions.some((deletion) => touches(work.records, deletion))) break;
      taken.push(work);
      passed++;
      if (work.alone) break;
    }
    this.#queue.splice(0, passed);
    return taken;
  }

  async #commit(writes: readonly PendingWrite[], deleting: PendingDeletion | undefined): Promise<void> {
    const changes = changesOf(writes.map(({ records }) => records));
    const most = deleting === undefined ? 0 : rowsOfSlice(deleting.family);
    const deletion = deleting && { family: deleting.family, range: deleting.range, most };
    const works = deleting === undefined ? writes : [...writes, deleting];
    await this.#attempt(works, async () => {
      const deleted = await this.#apply({ seq: this.#link.acknowledged + 1, changes, deletion });
      for (const { resolve } of writes) resolve();
      if (deleting === undefined || deleted === undefined || deleted >= most) return;
      this.#deletions.shift();
      deleting.resolve();
    });
    for (const { records } of writes) reuseMemory(records.buffer);
  }

  /** Runs work, and refuses it, and what may depend on it, if it fails. */
  async #attempt(works: readonly Pending[], run: () => Promise<void>): Promise<void> {
    this.#beganMs = performance.now();
    try {
      await run();
      for (const work of works) if (work.kind === 'check') work.resolve();
    } catch (error) {
      const alone = works.some((work) => work.kind === 'write' && work.alone === true);
      this.#refuse(works, error as Error, alone);
    } finally {
      this.#beganMs = undefined;
    }
  }

  #refuse(works: readonly Pending[], error: Error, alone: boolean): void {
    const isFull = error instanceof DatabaseError && error.kind === 'full';
    if (isFull && alone) {
      for (const { reject } of works) reject(new StoreFullError(error.message));
      return;
    }
    const refused = [...new Set([...works, ...this.#deletions.splice(0), ...this.#queue.splice(0)])];
    const told = isFull ? this.#full(error) : this.#failed(error);
    for (const { reject } of refused) reject(told);
  }

  #full(error: Error): StoreFullError {
    const refusal = new StoreFullError(`the database has no space: ${error.message}`, { cause: error });
    this.#refusal = refusal;
    this.#options.after(0, () => {
      this.#refusal = undefined;
    });
    this.#options.onFull();
    return refusal;
  }

  #failed(error: Error): Error {
    if (error instanceof StoreLostError || error instanceof StoreClosedError || error instanceof StoreFailedError) {
      // The link has ended: the store is lost, closed or given up.
      this.#failure = error;
      return error;
    }
    const failure = new StoreFailedError(`the database refuses a write: ${error.message}`, { cause: error });
    this.#failure = failure;
    this.#options.onFailed(failure);
    return failure;
  }

  async #check(): Promise<void> {
    for (;;) {
      const session = await this.#link.session();
      try {
        await this.#link.check(session);
        return;
      } catch (error) {
        await this.#goOn(session, error);
      }
    }
  }

  /**
   * Resolves when the commit was applied, with the number of rows that it deleted; undefined if that is not known. If it rejects
   * because the database is full, the commit will never be applied.
   */
  async #apply(commit: Commit): Promise<number | undefined> {
    const link = this.#link;
    const { seq } = commit;
    let isApplied = false;
    /** An earlier try had no answer: it may still arrive. */
    let isOpen = false;
    let refusal: DatabaseError | undefined;
    for (let isRepeated = false; ; isRepeated = true) {
      const session = await link.session();
      let next = commit;
      let deleted: number | undefined;
      try {
        const last = isRepeated ? await link.check(session) : link.acknowledged;
        // A larger number is that of a commit which was sent to settle this one.
        if (last <= seq) isApplied = last === seq;
        next = nextCommit(commit, last, refusal !== undefined);
        link.sent = Math.max(link.sent, next.seq);
        const sent = link.instant();
        deleted = await session.commit(link.me, next);
        if (deleted === undefined) continue;
        link.proved(sent);
        link.acknowledged = next.seq;
      } catch (error) {
        const kind = error instanceof DatabaseError ? error.kind : undefined;
        if (kind === 'lost') isOpen ||= next === commit;
        else if (kind === 'full' && !isApplied) {
          if (!isOpen) throw error;
          refusal ??= error as DatabaseError;
        }
        await this.#goOn(session, error);
        continue;
      }
      if (next === commit) return deleted;
      if (refusal !== undefined && !isApplied) throw refusal;
      return undefined;
    }
  }

  /** Throws an error that a repetition does not help. */
  async #goOn(session: Session, error: unknown): Promise<void> {
    if (!(error instanceof DatabaseError) || error.kind === 'failed') throw error;
    if (error.kind === 'lost') this.#link.drop(session, error);
    else await this.#link.pause(AGAIN_AFTER_MS);
  }
}

/**
 * What is sent when the row of the node has the number `last`. After a restart a server shows what it has not replicated yet. The
 * answer to another commit says that it has. Until then a failover may take both back, and then the commit is sent again.
 * `isRefused`: instead of the commit one is sent that leaves its number out, so that it is not applied when it arrives late.
 */
function nextCommit(commit: Commit, last: number, isRefused: boolean): Commit {
  const { seq } = commit;
  if (last >= seq) return { seq: last + 1, changes: NOTHING };
  return isRefused ? { seq: seq + 1, behind: seq - 1, changes: NOTHING } : commit;
}

const AGAIN_AFTER_MS = 20;

function touches(
  records: Uint8Array,
  { family, range }: { readonly family: Family; readonly range: KeyRange },
): boolean {
  let found = false;
  const look = (of: Family, bytes: Uint8Array): void => {
    if (found || of !== family) return;
    const key = latin1Of(bytes);
    found = key >= range.gte && key < range.lt;
  };
  visitWrites(records, { put: look, delete: look });
  return found;
}
