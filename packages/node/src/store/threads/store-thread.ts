import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Transferable, Worker } from 'node:worker_threads';

/** A thread of the store: takes requests, sends replies, ends when asked. */
export interface StoreThread<Request, Reply> {
  post(request: Request, transfer?: readonly Transferable[]): void;
  onReply(listener: (reply: Reply) => void): void;
  /** Called if the thread ends by an error. */
  onDeath(listener: (error: Error) => void): void;
  /** Resolves when the thread has ended, in whatever way. */
  readonly ended: Promise<void>;
}

/** What these threads allocate dies at once; the default of 48 MiB would only make them look large. */
const YOUNG_MIB = 8;

/**
 * Starts a thread from its source in this folder; resolves when it sent its first reply, which is not passed on.
 * Rejects if it ends before.
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
