import { statSync } from 'node:fs';

/**
 * Calls back when one of the files changes or is replaced. It compares the files at intervals: that works on every file system,
 * and with the symbolic links by which Kubernetes replaces Secrets. Begin it before the files are read, so that no change is
 * missed.
 */
export class FileChanges implements Disposable {
  readonly #files: readonly string[];
  readonly #timer: NodeJS.Timeout;
  #seen: string;

  constructor(files: readonly string[], everyMs: number, onChange: () => void) {
    this.#files = files;
    this.#seen = this.#look();
    this.#timer = setInterval(() => {
      const now = this.#look();
      if (now === this.#seen) return;
      this.#seen = now;
      onChange();
    }, everyMs).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #look(): string {
    const marks = this.#files.map((file) => {
      const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
      return stat === undefined ? '' : `${stat.ino}.${stat.mtimeNs}.${stat.ctimeNs}.${stat.size}`;
    });
    return marks.join(' ');
  }
}
