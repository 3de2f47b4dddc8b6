import { link, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';

/*
 * A record of RocksDB's files, kept outside RocksDB. RocksDB takes some damage for a crash during a write and silently
 * continues with fewer rows:
 *  - a manifest that has lost changes at its end, with all the tables that they named;
 *  - a write-ahead log that is missing or truncated while later ones exist: its rows are not replayed.
 *
 * From time to time, the length and checksum of the manifest, which only grows, and of the complete logs are recorded. (The
 * sync mark guards the log that is being written.) At an open, each file must still begin with the recorded bytes.
 *
 * A log may be missing because RocksDB has deleted it after all its rows were in tables. So every log gets a second name in
 * another folder, which keeps it a little longer. A log that is missing at an open is put back; RocksDB deletes it again if it
 * does not need it. After a clean close, all recorded logs must exist.
 */

export const SYNCED_FILES = 'synced-files';
export const KEPT_LOGS = 'kept-logs';
const VERSION = 1;
const CHUNK_BYTES = 256 * 1024;

/** The recorded length of a file and the CRC-32 of these bytes. */
interface FileMark {
  readonly bytes: number;
  readonly crc: number;
}

interface Recorded {
  readonly version: typeof VERSION;
  /** True if the database was closed cleanly, so that `files` names all logs. */
  readonly closed: boolean;
  readonly files: Readonly<Record<string, FileMark>>;
}

const NOTHING: FileMark = { bytes: 0, crc: 0 };

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';
const isLog = (name: string): boolean => /^\d+\.log$/.test(name);
const byNumber = (a: string, b: string): number => Number.parseInt(a, 10) - Number.parseInt(b, 10);

/** The names in a folder; empty if it is missing. */
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

/** Syncs the file and returns its length and checksum; undefined if it is missing. */
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

/** Starts a new record. Call it before a database is created. */
export async function beginRecord(dir: string): Promise<void> {
  await rm(join(dir, KEPT_LOGS), { recursive: true, force: true });
  await save(dir, { closed: false, files: {} });
}

/**
 * Puts missing logs back and compares the files with the record. Call it before RocksDB opens the database. Returns a sentence
 * for each damaged file, and one for each file that could not be checked.
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
      // Without a clean close, RocksDB may have replaced or deleted it since.
      if (recorded.closed) lost.push(`${join(dir, name)} is missing`);
      continue;
    }
    const found = await checksum(join(dir, name), NOTHING, mark.bytes);
    if (found === undefined) lost.push(`${join(dir, name)} is shorter than the ${mark.bytes} bytes that were synced`);
    else if (found.crc !== mark.crc) lost.push(`${join(dir, name)} is damaged`);
  }
  // From now on, RocksDB may delete recorded files.
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

/** Updates the record while the database is open. */
export class SyncedFiles {
  readonly #dir: string;
  #files: Record<string, FileMark> = {};
  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Records new bytes of the files. Throws errors of the file system. */
  async look(): Promise<void> {
    const names = await readdir(this.#dir);
    const logs = names.filter(isLog).sort(byNumber);
    await this.#keep(logs);
    // The last log is still being written. RocksDB completed the others before it started that one.
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

  /** Gives every log a second name and removes the second names of deleted logs, oldest first, so that there is never a gap. */
  async #keep(logs: readonly string[]): Promise<void> {
    const folder = join(this.#dir, KEPT_LOGS);
    const kept = (await namesIn(folder)).filter(isLog).sort(byNumber);
    if (kept.length === 0) await mkdir(folder, { recursive: true });
    for (const name of kept) if (!logs.includes(name)) await rm(join(folder, name), { force: true });
    for (const name of logs) if (!kept.includes(name)) await keepOne(this.#dir, name);
  }
}

/** Does nothing on file systems without hard links. */
async function keepOne(dir: string, name: string): Promise<void> {
  try {
    await link(join(dir, name), join(dir, KEPT_LOGS, name));
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!['ENOENT', 'EEXIST', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK'].includes(code)) throw error;
  }
}
