import { type FileHandle, open, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The entry of a page in the index. */
export interface IndexEntry {
  readonly url: string;
  readonly title: string;
  /** SHA-256 of the text, in hexadecimal digits. */
  readonly textHash: string;
  /** How often each word occurs. */
  readonly words: Readonly<Record<string, number>>;
}

/** The position of an entry. */
export interface Place {
  readonly segment: string;
  /** Offset of its line, in bytes. */
  readonly offset: number;
  readonly length: number;
}

/** A line of a segment. */
export type SegmentLine =
  | ({ readonly kind: 'entry' } & IndexEntry)
  /** The node has confirmed that this segment has the valid entry of the page. */
  | { readonly kind: 'committed'; readonly url: string };

const ENDING = '.segment';

/**
 * The part of the index that one worker process writes: a file to which lines are appended.
 *
 * A file and a queue cannot change atomically. So a worker that dies between writing an entry and completing its task leaves
 * an entry behind, and the next worker of the task writes another one. An entry is only a candidate: the update that
 * completes the index task decides. It adds the place of the entry to the queue `indexed`, with the URL as PID, and it is
 * refused if this PID exists. Entries that were not committed are garbage, and the report counts them.
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

  /** Rejects if the segment exists: each process writes its own. */
  static async create(dir: string, name: string): Promise<SegmentWriter> {
    return new SegmentWriter(name + ENDING, await open(join(dir, name + ENDING), 'ax'));
  }

  /** Resolves when the entry is on disk. After an error all calls reject, because the end of the file is unknown then. */
  append(entry: IndexEntry): Promise<Place> {
    return this.#inTurn({ kind: 'entry', ...entry }, async (place) => {
      await this.#file.datasync();
      return place;
    });
  }

  /** Notes that the node has committed the entry of the page. Only the check at the end of the demo reads it. */
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
    // Each later call rejects with this error. Without a handler it would end the process now.
    written.catch(() => {});
    return written;
  }
}

/** Every complete line of every segment, with its place. */
export async function* readSegments(
  dir: string,
): AsyncGenerator<{ readonly line: SegmentLine; readonly place: Place }> {
  for (const segment of (await readdir(dir)).filter((name) => name.endsWith(ENDING)).sort()) {
    const bytes = await readFile(join(dir, segment));
    let offset = 0;
    // The last line of a killed worker may be incomplete. Then it was never committed.
    for (let end = bytes.indexOf('\n'); end >= 0; end = bytes.indexOf('\n', offset)) {
      const line = JSON.parse(bytes.toString('utf8', offset, end)) as SegmentLine;
      yield { line, place: { segment, offset, length: end + 1 - offset } };
      offset = end + 1;
    }
  }
}
