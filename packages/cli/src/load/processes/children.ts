import { type ChildProcess, fork } from 'node:child_process';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { mergeReports } from '../report/merge-reports.ts';
import type { FromProcess, ProcessJob, ToProcess } from './messages.ts';
import type { JobHooks, JobResult } from './run-job.ts';

/** An instance in another process has failed. */
export class ProcessFailedError extends Error {
  override readonly name = 'ProcessFailedError';
  /** The class of its error. */
  readonly failedWith: string;
  /** Reason of a `TaskMasterError`. Undefined: it was another error. */
  readonly reason: string | undefined;

  constructor(message: string, failedWith: string, reason?: string) {
    super(message);
    this.failedWith = failedWith;
    this.reason = reason;
  }
}

/** Runs several instances, each in a process of its own. If one fails, the others end early. */
export async function runProcesses(jobs: readonly ProcessJob[], hooks: JobHooks): Promise<JobResult> {
  const failure = new AbortController();
  const signal = AbortSignal.any([hooks.signal, failure.signal]);
  let waiting = jobs.length;
  const onStart = (): void => {
    if (--waiting === 0) hooks.onStart();
  };
  const running = jobs.map((job) =>
    runChild(job, { signal, onStart, onTick: hooks.onTick }).catch((error: unknown) => {
      failure.abort();
      throw error;
    }),
  );
  const ended = await Promise.allSettled(running);
  const results = ended.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  for (const one of ended) if (one.status === 'rejected') throw one.reason;
  return {
    report: mergeReports(results.map(({ report }) => report)),
    notCleaned: results.flatMap(({ notCleaned }) => notCleaned),
  };
}

function runChild(job: ProcessJob, { signal, onStart, onTick }: JobHooks): Promise<JobResult> {
  // TypeScript in the sources and JavaScript in the build, like this file.
  const file = fileURLToPath(new URL(`./load-process${extname(fileURLToPath(import.meta.url))}`, import.meta.url));
  return new Promise((resolve, reject) => {
    const child = fork(file, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const stop = (): void => send(child, { kind: 'stop' });
    const settle = (act: () => void): void => {
      signal.removeEventListener('abort', stop);
      if (child.connected) child.disconnect();
      act();
    };
    child.on('message', (message: FromProcess) => {
      if (message.kind === 'started') onStart();
      else if (message.kind === 'tick') onTick(message.tick);
      else if (message.kind === 'done') settle(() => resolve(message));
      else settle(() => reject(new ProcessFailedError(message.message, message.name, message.reason)));
    });
    child.once('error', (error) => settle(() => reject(error)));
    child.once('exit', (code, killedBy) => {
      const how = killedBy === null ? `exit code ${code}` : killedBy;
      settle(() => reject(new ProcessFailedError(`a process of the load ended: ${how}`, 'Exit')));
    });
    send(child, { kind: 'run', job });
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
  });
}

function send(child: ChildProcess, message: ToProcess): void {
  if (child.connected) child.send(message);
}
