import { Worker as Thread } from 'node:worker_threads';
import type { NodeThreadData } from './node-thread-main.ts';

/** A node in another thread, which serves while the test's thread is blocked. Its tasks are in memory. */
interface NodeThread extends AsyncDisposable {
  /** 0 until the node is up. */
  readonly port: number;
  /** Number of renewals so far. */
  readonly renewals: number;
}

export function startNodeThread(): NodeThread {
  const figures = new Int32Array(new SharedArrayBuffer(8));
  const thread = new Thread(new URL('./node-thread-main.ts', import.meta.url), {
    workerData: { figures } satisfies NodeThreadData,
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
