import { isTaskMasterError } from '@taskmaster/client';
import type { FromProcess, ProcessJob, ToProcess } from './messages.ts';
import { runJob } from './run-job.ts';

/*
 * A process that runs one instance of a load. Its parent sends it the job, and ends it early with a message. It ends when its
 * parent does.
 */

const interrupt = new AbortController();

process.on('message', (message: ToProcess) => {
  if (message.kind === 'run') void run(message.job);
  else interrupt.abort();
});
process.once('disconnect', () => process.exit(0));
// A terminal sends them to all processes. The parent decides.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => {});

async function run(job: ProcessJob): Promise<void> {
  try {
    const { report, notCleaned } = await runJob(job, {
      signal: interrupt.signal,
      onStart: () => send({ kind: 'started' }),
      onTick: (tick) => send({ kind: 'tick', tick }),
    });
    send({ kind: 'done', report, notCleaned });
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    send({ kind: 'failed', name, reason: isTaskMasterError(error) ? error.reason : undefined, message });
  }
}

function send(message: FromProcess): void {
  process.send?.(message);
}
