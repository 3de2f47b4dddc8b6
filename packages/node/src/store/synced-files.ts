import { link, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';

/*
 * What RocksDB's files were when they were last seen, kept outside RocksDB. It takes some damage for a crash in the
 * middle of writing and goes on with less, without a word:
 *  - changes cut off the end of its manifest, with all the tables they named;
 *  - a write-ahead log that is missing or cut short while later ones are there: the rows in it are simply not replayed.
 *
 * From time to time the manifest, which only grows, and the logs that are complete are recorded with length and
 * checksum. (The log still being written is guarded by the sync mark.) At open each must still begin with that.
 *
 * A log that is missing may be gone for good reason: RocksDB deletes it when all its rows are in tables. So a second
 * name in a folder beside keeps every log a little longer; a log that is missing at open is put back. If RocksDB was
 * done with it, it deletes it again. After an orderly close there is nothing to guess: all logs recorded must be there.
 */

export const SYNCED_FILES = 'synced-files';
export const KEPT_LOGS = 'kept-logs';
const VERSION = 1;
const CHUNK_BYTES = 256 * 1024;

/** How much of a file is known, and the CRC-32 of that. */
interface FileMark {
  readonly bytes: number;
  readonly crc: number;
}

interface Recorded {
  readonly version: typeof VERSION;
  /** Whether the database was closed in good order after this was written, and `files` names all logs. */
  readonly closed: boolean;
  readonly files: Readonly<Record<string, FileMark>>;
}

const NOTHING: FileMark = { bytes: 0, crc: 0 };

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';
const isLog = (name: string): boolean => /^\d+\.log$/.test(name);
const byNumber = (a: string, b: string): number => Number.parseInt(a, 10) - Number.parseInt(b, 10);

/** The names in a folder; none if it is missing. */
async function namesIn(dir: string): Promise<string[]> {
  try {
    return await readdir(dir);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** Continues a checksum up to `end`; undefined if the file is missing or shorter. */
async function checksum(path: string, from: FileMark, end: number): Promise<FileMark | undefined> {
  try {
    await using file = await open(path, 'r');
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    let { bytes, crc } = from;
    while (bytes < end) {
      const { bytesRead } = await file.read(chunk, 0, Math.min(CHUNK_BYTES, end - bytes), bytes);
      if (bytesRead === 0) return undefined;
      crc = crc32(chunk.subarray(0, bytesRead), crc);
      bytes += bytesRead;
    }
    return { bytes, crc };
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** The file as it is, once all of it is certainly on disk; undefined if it is missing. */
async function syncedMark(path: string, known: FileMark): Promise<FileMark | undefined> {
  try {
    await using file = await open(path, 'r');
    const { size } = await file.stat();
    if (size === known.bytes) return known;
    await file.datasync();
    return await checksum(path, size > known.bytes ? known : NOTHING, size);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

async function read(dir: string): Promise<Recorded | 'missing' | 'damaged'> {
  let text: string;
  try {
    text = await readFile(join(dir, SYNCED_FILES), 'utf8');
  } catch (error) {
    if (isMissing(error)) return 'missing';
    throw error;
  }
  const [body = '', sum] = text.split('\n');
  if (Number(sum) !== crc32(body)) return 'damaged';
  const recorded = JSON.parse(body) as Recorded;
  return recorded.version === VERSION ? recorded : 'damaged';
}

async function save(dir: string, recorded: Omit<Recorded, 'version'>): Promise<void> {
  const path = join(dir, SYNCED_FILES);
  const body = JSON.stringify({ version: VERSION, ...recorded });
  {
    await using draft = await open(`${path}.new`, 'w');
    await draft.writeFile(`${body}\n${crc32(body)}\n`);
    await draft.datasync();
  }
  await rename(`${path}.new`, path);
}

/** To be called where a database is to be created: begins the record, and forgets that of an earlier one. */
export async function beginRecord(dir: string): Promise<void> {
  await rm(join(dir, KEPT_LOGS), { recursive: true, force: true });
  await save(dir, { closed: false, files: {} });
}

/**
 * To be called before RocksDB opens the database: puts missing logs back and compares files to what was recorded.
 * Returns what is wrong, a sentence for each file; and what could not be checked.
 */
export async function checkFiles(dir: string): Promise<{ readonly lost: string[]; readonly unchecked: string[] }> {
  for (const name of (await namesIn(join(dir, KEPT_LOGS))).filter(isLog)) await putBack(dir, name);
  const recorded = await read(dir);
  if (recorded === 'missing' || recorded === 'damaged') {
    return { lost: [], unchecked: [`${join(dir, SYNCED_FILES)} is ${recorded}`] };
  }
  const present = new Set(await namesIn(dir));
  const lost: string[] = [];
  for (const [name, mark] of Object.entries(recorded.files)) {
    if (!present.has(name)) {
      // Otherwise RocksDB replaced or deleted it since.
      if (recorded.closed) lost.push(`${join(dir, name)} is missing`);
      continue;
    }
    const found = await checksum(join(dir, name), NOTHING, mark.bytes);
    if (found === undefined) lost.push(`${join(dir, name)} is shorter than the ${mark.bytes} bytes that were synced`);
    else if (found.crc !== mark.crc) lost.push(`${join(dir, name)} is damaged`);
  }
  // From here on RocksDB may delete what was recorded.
  if (lost.length === 0 && recorded.closed) await reopen(dir, recorded);
  return { lost, unchecked: [] };
}

async function reopen(dir: string, { files }: Recorded): Promise<void> {
  try {
    await save(dir, { closed: false, files });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    await rm(join(dir, SYNCED_FILES)); // no record is better than a wrong one
  }
}

async function putBack(dir: string, name: string): Promise<void> {
  try {
    await link(join(dir, KEPT_LOGS, name), join(dir, name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Keeps the record while the database is open. */
export class SyncedFiles {
  readonly #dir: string;
  #files: Record<string, FileMark> = {};
  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Looks at the files and records what is new. Throws what the file system throws. */
  async look(): Promise<void> {
    const names = await readdir(this.#dir);
    const logs = names.filter(isLog).sort(byNumber);
    await this.#keep(logs);
    // The last one is still being written; RocksDB has finished the others before it began that.
    await this.#record(await this.#marks(logs.slice(0, -1)), false);
  }

  /** Records all files, after the database was closed. */
  async close(): Promise<void> {
    await this.#record(await this.#marks((await readdir(this.#dir)).filter(isLog)), true);
  }

  async #marks(logs: readonly string[]): Promise<Record<string, FileMark>> {
    const marks: Record<string, FileMark> = {};
    for (const name of logs) {
      const mark = this.#files[name] ?? (await syncedMark(join(this.#dir, name), NOTHING));
      if (mark !== undefined) marks[name] = mark;
    }
    return marks;
  }

  async #record(logs: Record<string, FileMark>, closed: boolean): Promise<void> {
    const files = { ...logs, ...(await this.#manifest()) };
    if (!closed && JSON.stringify(files) === JSON.stringify(this.#files)) return;
    await save(this.#dir, { closed, files });
    this.#files = files;
  }

  async #manifest(): Promise<Record<string, FileMark>> {
    try {
      const name = (await readFile(join(this.#dir, 'CURRENT'), 'latin1')).trim();
      const mark = await syncedMark(join(this.#dir, name), this.#files[name] ?? NOTHING);
      return mark === undefined ? {} : { [name]: mark };
    } catch (error) {
      if (isMissing(error)) return {};
      throw error;
    }
  }

  /** Gives every log a second name, and takes it from those that are gone; the oldest first, so that none is between. */
  async #keep(logs: readonly string[]): Promise<void> {
    const folder = join(this.#dir, KEPT_LOGS);
    const kept = (await namesIn(folder)).filter(isLog).sort(byNumber);
    if (kept.length === 0) await mkdir(folder, { recursive: true });
    for (const name of kept) if (!logs.includes(name)) await rm(join(folder, name), { force: true });
    for (const name of logs) if (!kept.includes(name)) await keepOne(this.#dir, name);
  }
}

/** File systems without second names do without. */
async function keepOne(dir: string, name: string): Promise<void> {
  try {
    await link(join(dir, name), join(dir, KEPT_LOGS, name));
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!['ENOENT', 'EEXIST', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK'].includes(code)) throw error;
  }
}
