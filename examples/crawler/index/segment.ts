import { type FileHandle, open, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** A page as the index keeps it. */
export interface IndexEntry {
  readonly url: string;
  readonly title: string;
  /** SHA-256 of the text, in hexadecimal digits. */
  readonly textHash: string;
  /** How often each word occurs. */
  readonly words: Readonly<Record<string, number>>;
}

/** Where an entry is. */
export interface Place {
  readonly segment: string;
  /** Of its line, in bytes. */
  readonly offset: number;
  readonly length: number;
}

/** A line of a segment. */
export type SegmentLine =
  | ({ readonly kind: 'entry' } & IndexEntry)
  /** The node has answered that the page's entry in this segment is the one that counts. */
  | { readonly kind: 'committed'; readonly url: string };

const ENDING = '.segment';

/**
 * The part of the index that one worker process writes: a file of lines that only grows.
 *
 * A file and a queue cannot change together atomically, so a worker that dies between writing an entry and completing
 * its task leaves an entry behind, and the task's next worker writes another one. Nothing here hides that. An entry is
 * a mere candidate: which one is the page's is decided by the update that completes the index task, because it also
 * adds the entry's place to the queue `indexed`, under the page's URL, and is refused if one is there already.
 * What was never committed is garbage, and is counted as such.
 */
export class SegmentWriter implements AsyncDisposable {
  readonly #name: string;
  readonly #file: FileHandle;
  #end = 0;
  #writing: Promise<unknown> = Promise.resolve();

  private constructor(name: string, file: FileHandle) {
    this.#name = name;
    this.#file = file;
  }

  /** @throws when there is such a segment: a process never writes to another one's. */
  static async create(dir: string, name: string): Promise<SegmentWriter> {
    return new SegmentWriter(name + ENDING, await open(join(dir, name + ENDING), 'ax'));
  }

  /** Resolves when the entry is on disk. After an error all calls reject, since the end of the file is unknown then. */
  append(entry: IndexEntry): Promise<Place> {
    return this.#inTurn({ kind: 'entry', ...entry }, async (place) => {
      await this.#file.datasync();
      return place;
    });
  }

  /** Notes that the node has committed the page's entry. For the check at the end; nothing depends on it. */
  async noteCommitted(url: string): Promise<void> {
    await this.#inTurn({ kind: 'committed', url }, async () => {});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writing.catch(() => {});
    await this.#file.close();
  }

  #inTurn<Result>(line: SegmentLine, then: (place: Place) => Promise<Result>): Promise<Result> {
    const bytes = Buffer.from(`${JSON.stringify(line)}\n`, 'utf8');
    const written = this.#writing.then(async () => {
      const place = { segment: this.#name, offset: this.#end, length: bytes.length };
      await this.#file.appendFile(bytes);
      this.#end += bytes.length;
      return then(place);
    });
    this.#writing = written;
    // Every later call rejects with it; without any it would end the process.
    written.catch(() => {});
    return written;
  }
}

/** Every whole line of every segment, with its place. */
export async function* readSegments(
  dir: string,
): AsyncGenerator<{ readonly line: SegmentLine; readonly place: Place }> {
  for (const segment of (await readdir(dir)).filter((name) => name.endsWith(ENDING)).sort()) {
    const bytes = await readFile(join(dir, segment));
    let offset = 0;
    // A killed worker's last line may be torn: without its end it was never on disk as a whole, nor committed.
    for (let end = bytes.indexOf('\n'); end >= 0; end = bytes.indexOf('\n', offset)) {
      const line = JSON.parse(bytes.toString('utf8', offset, end)) as SegmentLine;
      yield { line, place: { segment, offset, length: end + 1 - offset } };
      offset = end + 1;
    }
  }
}
