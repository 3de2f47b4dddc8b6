/**
 * The queue as a part of the program: no server, no network, the same client. The data outlives the program; run it
 * twice to see.
 *
 *     npm run example embedded [directory]
 */
import { openEmbedded } from '@taskmaster/node';

await using client = await openEmbedded({ dir: process.argv[2] ?? './data/embedded-example' });
const jobs = client.queue<{ startedBy: string }>('jobs');

// Left by the run before: it ended without completing its job, as a crash would.
for (const job of await jobs.lease({ max: 100 })) {
  console.log(`finishing the job that ${job.data.startedBy} has left`);
  await job.complete();
}

const startedBy = `process ${process.pid}`;
await jobs.enqueue({ startedBy });
const { available } = await jobs.stats();
console.log(`${startedBy} leaves ${available} job`);
