import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Transferable, Worker } from 'node:worker_threads';

/** A thread of the store: takes requests, sends replies, ends when asked. */
export interface StoreThread<Request, Reply> {
  post(request: Request, transfer?: readonly Transferable[]): void;
  onReply(listener: (reply: Reply) => void): void;
  /** Calls the listener if the thread ends with an error. */
  onDeath(listener: (error: Error) => void): void;
  /** Resolves when the thread has ended, with or without an error. */
  readonly ended: Promise<void>;
}

/** Size of the young generation. Objects of these threads are short-lived; the default of 48 MiB would only use memory. */
const YOUNG_MIB = 8;

/**
 * Starts a thread from its source in this folder. Resolves after its first reply, which is not passed on. Rejects if the thread
 * ends before.
 */
export async function startThread<Request, Reply>(name: string, setup: unknown): Promise<StoreThread<Request, Reply>> {
  const source = new URL(`./${name}${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
  const worker = new Worker(source, {
    workerData: setup,
    name,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MIB },
  });
  const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  await new Promise<void>((resolve, reject) => {
    worker.once('message', () => resolve());
    worker.once('error', reject);
    worker.once('exit', (code) => reject(new Error(`the thread ${name} ended with code ${code} before it was ready`)));
  });
  worker.removeAllListeners('error');
  return {
    post: (request, transfer = []) => worker.postMessage(request, transfer),
    onReply: (listener) => void worker.on('message', listener),
    onDeath: (listener) => void worker.on('error', listener),
    ended,
  };
}
