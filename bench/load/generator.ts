import { runWorkers } from '../paper/load/workers.ts';
import { Connections } from './connections.ts';
import { runHandOver, runWorker } from './consume.ts';
import type { Job, JobReply, JobRequest, JobResults } from './jobs.ts';
import { openOperation } from './operations.ts';
import { PacedLoad } from './paced.ts';
import { Polls } from './polls.ts';
import { readBackups } from './read-backup.ts';
import { runLoop } from './run-loop.ts';

/*
 * A process that generates load. Its parent sends it jobs. Connections stay open between jobs. It ends when its parent ends.
 */

const connections = new Connections();
const polls = new Polls(connections);
const paced = new PacedLoad();

process.on('message', (request: JobRequest) => void answer(request));
process.once('disconnect', () => process.exit(0));
// The parent handles Ctrl-C.
process.on('SIGINT', () => {});

async function answer({ id, job }: JobRequest): Promise<void> {
  try {
    send({ id, result: await run(job) });
  } catch (error) {
    send({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
}

async function run(job: Job): Promise<JobResults[Job['kind']]> {
  switch (job.kind) {
    case 'loop':
      return runLoop(await openOperation(connections, job.endpoint, job.operation), job);
    case 'paced':
      return paced.run(job);
    case 'workers':
      return runWorkers(connections, job);
    case 'stop-paced':
      paced.stop();
      return null;
    case 'worker':
      return runWorker(connections, job);
    case 'hand-over':
      return runHandOver(connections, job);
    case 'open-polls':
      return polls.open(job);
    case 'backup':
      return readBackups(connections, job);
    case 'wake-poll':
      return polls.wake(job);
    default:
      return job satisfies never;
  }
}

function send(reply: JobReply): void {
  process.send?.(reply);
}
