/**
 * A page follows one report while a worker makes it, and another program goes on where it has stopped. Needs a node: `npm start`.
 *
 *     npm run example events [host:port]
 */
import { connect, pidText } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const reports = client.queue<{ pages: number }>('news#report');
const start = await client.eventPosition('news#*');

await using worker = client.worker(reports, async (task) => {
  for (let page = 1; page <= task.data.pages; page++) await task.reportProgress(`page ${page} of ${task.data.pages}`);
});
worker.start();
await reports.enqueue({ pages: 2 }, { pid: 'monday' });

// The page sees its report only.
for await (const { kind, text } of client.events('news#report', { after: start, pid: 'monday' })) {
  console.log(`monday: ${kind}${text === undefined ? '' : `, ${text}`}`);
  if (kind === 'completed') break;
}

// A log of all ends in the group, which has stored its position.
let position = start;
const ends = { kinds: ['completed', 'removed'], follow: false } as const;
for await (const event of client.events('news#*', { ...ends, after: position })) position = event.position;
await client.queue('news#letter').enqueue('hello', { pid: 'ann' });
await client.update().dequeue('news#letter', 'ann').commit();
for await (const { kind, queue, pid } of client.events('news#*', { ...ends, after: position })) {
  console.log(`${queue}: ${pid && pidText(pid)} ${kind}`);
}
