import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface TemporaryDirectory extends AsyncDisposable {
  readonly path: string;
}

/** A new directory. It is deleted with its contents when it is disposed of. */
export async function temporaryDirectory(): Promise<TemporaryDirectory> {
  const path = await mkdtemp(join(tmpdir(), 'taskmaster-test-'));
  return {
    path,
    async [Symbol.asyncDispose]() {
      // A process that was just killed may still create files.
      await rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 });
    },
  };
}
