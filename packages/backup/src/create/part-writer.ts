import type { BackupPartitionResponse } from '@taskmaster/proto';
import { type PartRecord, partName, recordOf } from '../format/manifest.ts';
import { encodeMessage, encodePart } from '../format/part.ts';
import type { BackupTarget } from '../places/place.ts';

interface PartWriterOptions {
  /** A part is complete when its messages have this size in bytes. */
  readonly partBytes: number;
  /** Called when a part was written. */
  readonly onPart: (part: PartRecord) => void;
}

/** Writes the messages of one partition as parts. A part is compressed and written while the next messages arrive. */
export class PartWriter {
  readonly #target: BackupTarget;
  readonly #partition: number;
  readonly #options: PartWriterOptions;
  readonly #parts: PartRecord[] = [];
  #messages: Uint8Array[] = [];
  #bytes = 0;
  #index = 0;
  #writing: Promise<void> = Promise.resolve();

  constructor(target: BackupTarget, partition: number, options: PartWriterOptions) {
    this.#target = target;
    this.#partition = partition;
    this.#options = options;
  }

  /** Waits while the previous part is being written, so that at most two parts are in memory. */
  async add(message: BackupPartitionResponse): Promise<void> {
    const bytes = encodeMessage(message);
    this.#messages.push(bytes);
    this.#bytes += bytes.byteLength;
    if (this.#bytes >= this.#options.partBytes) await this.#flush();
  }

  /** Writes the rest. Resolves with all parts, in order. */
  async end(): Promise<readonly PartRecord[]> {
    await this.#flush();
    await this.#writing;
    return this.#parts;
  }

  /** Resolves when no write is in progress. */
  async abandon(): Promise<void> {
    await this.#writing.catch(() => {});
  }

  async #flush(): Promise<void> {
    if (this.#messages.length === 0) return;
    const messages = this.#messages;
    const name = partName(this.#partition, this.#index++);
    this.#messages = [];
    this.#bytes = 0;
    await this.#writing;
    this.#writing = this.#write(name, messages);
    // The next `#flush` or `end` rejects with the error of this write.
    this.#writing.catch(() => {});
  }

  async #write(name: string, messages: readonly Uint8Array[]): Promise<void> {
    const bytes = await encodePart(messages);
    await this.#target.write(name, bytes);
    const part = recordOf(name, bytes);
    this.#parts.push(part);
    this.#options.onPart(part);
  }
}
