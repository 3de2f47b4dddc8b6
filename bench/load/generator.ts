import { runWorkers } from '../paper/load/workers.ts';
import { Connections } from './connections.ts';
import { runHandOver, runWorker } from './consume.ts';
import type { Job, JobReply, JobRequest, JobResults } from './jobs.ts';
import { openOperation } from './operations.ts';
import { PacedLoad } from './paced.ts';
import { Polls } from './polls.ts';
import { runLoop } from './run-loop.ts';

/*
 * A process that makes load. Its parent sends it jobs; connections stay open from one to the next. It ends with its
 * parent, whatever becomes of that.
 */

const connections = new Connections();
const polls = new Polls(connections);
const paced = new PacedLoad();

process.on('message', (request: JobRequest) => void answer(request));
process.once('disconnect', () => process.exit(0));
// Ctrl-C is the parent's to handle.
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
    case 'wake-poll':
      return polls.wake(job);
    default:
      return job satisfies never;
  }
}

function send(reply: JobReply): void {
  process.send?.(reply);
}
