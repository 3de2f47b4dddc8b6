import { parentPort, workerData } from 'node:worker_threads';
import { loggedTask } from '../tasks/logged-task.ts';
import { receiveError, sendError } from '../values/sent-error.ts';
import { INSPECT, shownAs } from '../values/shown.ts';
import type { HandlerThreadData, SentTask, ThreadHandler, ThreadReport, ThreadRequest } from './handler-threads.ts';

// The main file of a thread of `HandlerThreads`. It runs one task at a time.
const { handler } = workerData as HandlerThreadData;
const report = (message: ThreadReport): void => parentPort?.postMessage(message);

const loading: Promise<ThreadHandler> = import(handler).then((module: { readonly default?: unknown }) => {
  // A handler in CommonJS may be the default of the default.
  const { default: found } = module;
  const inner = typeof found === 'object' && found !== null && 'default' in found ? found.default : found;
  if (typeof inner === 'function') return inner as ThreadHandler;
  throw new TypeError(`${handler} has no function as its default export`);
});
// It is reported with the first task.
loading.catch(() => {});

let abort = new AbortController();
const calls = new Map<number, PromiseWithResolvers<void>>();
let lastCall = 0;

function call(name: 'reportProgress' | 'checkpoint', value: string | Uint8Array): Promise<void> {
  const id = ++lastCall;
  const answer = Promise.withResolvers<void>();
  calls.set(id, answer);
  report({ kind: 'call', id, name, value });
  return answer.promise;
}

async function run(task: SentTask): Promise<void> {
  abort = new AbortController();
  let isLoaded = false;
  try {
    const handle = await loading;
    isLoaded = true;
    const methods = {
      signal: abort.signal,
      reportProgress: (text: string) => call('reportProgress', text),
      checkpoint: (bytes: Uint8Array) => call('checkpoint', bytes),
      toJSON: () => loggedTask(task),
    };
    const { pid: _pid, ...named } = task;
    const inspected = { value: () => shownAs('ThreadTask', named) };
    const returned = await handle(Object.defineProperty({ ...task, ...methods }, INSPECT, inspected));
    report({ kind: 'returned', returned });
  } catch (thrown) {
    // Also if what it returns cannot be sent.
    report({ kind: 'failed', error: sendError(thrown), isLoaded });
  }
}

parentPort?.on('message', (request: ThreadRequest) => {
  if (request.kind === 'run') {
    void run(request.task);
  } else if (request.kind === 'abort') {
    abort.abort(receiveError(request.reason));
  } else {
    const answer = calls.get(request.id);
    calls.delete(request.id);
    if (request.error === undefined) answer?.resolve();
    else answer?.reject(receiveError(request.error));
  }
});
