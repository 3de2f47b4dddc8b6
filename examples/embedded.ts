/**
 * A queue inside the program, with the same client API and without a server. The data stays when the program ends: run it
 * twice to see.
 *
 *     npm run example embedded [directory]
 */
import { openEmbedded } from '@taskmaster/node';

await using client = await openEmbedded({ dir: process.argv[2] ?? './data/embedded-example' });
const jobs = client.queue<{ startedBy: string }>('jobs');

// Tasks of the previous run, which ended without completing its task, like a crash.
for (const job of await jobs.lease({ max: 100 })) {
  console.log(`finishing the job that ${job.data.startedBy} has left`);
  await job.complete();
}

const startedBy = `process ${process.pid}`;
await jobs.enqueue({ startedBy });
const { available } = await jobs.stats();
console.log(`${startedBy} leaves ${available} job`);
