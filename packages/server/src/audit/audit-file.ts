import { closeSync, constants, fchmodSync, fstatSync, lstatSync, writeSync } from 'node:fs';
import { openRegularFile } from '../ports/open-regular-file.ts';

/** Only the user of the program reads the file. */
const MODE = 0o600;
/** How often the path is checked, in ms. */
const CHECK_MS = 1_000;
const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = constants;

/**
 * A file that lines are appended to. It is opened again when its path names another file or none, so that log rotation may move
 * it at any time. It is a regular file: a user who may write to its directory must not lead the lines, or the new mode, to
 * another file by a symbolic link, nor stop the program by a pipe.
 */
export class AuditFile {
  readonly #path: string;
  readonly #now: () => number;
  #fd: number | undefined;
  #checkedAt = Number.NEGATIVE_INFINITY;
  /** The disk was full in the middle of a line. */
  #isTorn = false;

  /** Throws an error of the system if the file cannot be opened. `now`: in ms, from any origin. */
  constructor(path: string, now: () => number = () => performance.now()) {
    this.#path = path;
    this.#now = now;
    this.#open();
  }

  /** Throws an error of the system if the line cannot be written whole. */
  append(line: string): void {
    this.#reopenIfMoved();
    const fd = this.#fd ?? this.#open();
    const bytes = Buffer.from(`${this.#isTorn ? '\n' : ''}${line}\n`);
    this.#isTorn = true;
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    this.#isTorn = false;
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  #open(): number {
    const fd = openRegularFile(this.#path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, MODE);
    this.#fd = fd;
    this.#isTorn = false;
    // A file that log rotation made may have other rights.
    fchmodSync(fd, MODE);
    return fd;
  }

  #reopenIfMoved(): void {
    const now = this.#now();
    if (this.#fd === undefined || now - this.#checkedAt < CHECK_MS) return;
    this.#checkedAt = now;
    const own = fstatSync(this.#fd);
    const named = lstatSync(this.#path, { throwIfNoEntry: false });
    if (named !== undefined && named.ino === own.ino && named.dev === own.dev) return;
    this.close();
  }
}
