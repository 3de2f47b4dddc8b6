import type { PartRecord } from '../format/manifest.ts';
import { type BackupStore, intactPart, tooLong } from '../places/place.ts';

/** A place for backups in memory. */
export class MemoryStore implements BackupStore {
  readonly title = 'memory';
  readonly maxConcurrency = undefined;
  readonly objects: Map<string, Uint8Array>;

  constructor(objects = new Map<string, Uint8Array>()) {
    this.objects = objects;
  }

  get store(): BackupStore {
    return this;
  }

  async write(name: string, bytes: Uint8Array): Promise<void> {
    this.objects.set(name, bytes);
  }

  finish(name: string, bytes: Uint8Array): Promise<void> {
    return this.write(name, bytes);
  }

  async read(name: string, maxBytes: number): Promise<Uint8Array | undefined> {
    const bytes = this.objects.get(name);
    if (bytes && bytes.byteLength > maxBytes) throw tooLong(name, maxBytes);
    return bytes;
  }

  async list(): Promise<readonly string[]> {
    return [...this.objects.keys()];
  }

  async remove(name: string): Promise<void> {
    this.objects.delete(name);
  }

  async copyFrom(base: BackupStore, part: PartRecord): Promise<boolean> {
    const bytes = await intactPart(base, part);
    if (!bytes) return false;
    await this.write(part.name, bytes);
    return true;
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
