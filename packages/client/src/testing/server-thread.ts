import { Worker as Thread } from 'node:worker_threads';
import type { ServerThreadData } from './fake-server-thread.ts';

/** A `FakeServer` in another thread, which serves while the test's thread is blocked. */
export interface ServerThread extends AsyncDisposable {
  /** 0 until the server is up. */
  readonly port: number;
  /** Number of renewals so far. */
  readonly renewals: number;
}

export function startServerThread(): ServerThread {
  const figures = new Int32Array(new SharedArrayBuffer(8));
  const thread = new Thread(new URL('./fake-server-thread.ts', import.meta.url), {
    workerData: { figures } satisfies ServerThreadData,
  });
  return {
    get port() {
      return Atomics.load(figures, 0);
    },
    get renewals() {
      return Atomics.load(figures, 1);
    },
    async [Symbol.asyncDispose]() {
      await thread.terminate();
    },
  };
}
