/**
 * Tasks that come again and again. The schedules are on the nodes: this program may crash, and runs are neither lost nor
 * repeated. Needs a node: `npm start`.
 *
 *     npm run example schedule [host:port]
 */
import { connect, scheduledRun } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const checks = client.queue<{ url: string }>('schedule#checks');

// At each start of a program: the same schedule again changes nothing.
for (let start = 1; start <= 2; start++) {
  const { result } = await client.schedules.put('schedule#check', {
    queue: checks,
    data: { url: 'https://example.com' },
    every: '1s',
    missedRuns: 'all',
    retry: { maxAttempts: 3 },
  });
  console.log(`check: ${result}`);
}
const { schedule: report } = await client.schedules.put('schedule#report', {
  queue: 'schedule#reports',
  data: { kind: 'all' },
  cron: '0 9 * * MON-FRI',
  timeZone: 'Europe/Berlin',
  skipWhileRunning: true,
});
const at = report.nextRuns[0]?.toLocaleTimeString('en-GB', { timeZone: 'Europe/Berlin' });
console.log(`the next report is at ${at}`);

let last = 0;
for (let runs = 1; runs <= 3; runs++) {
  const [task] = await checks.lease({ wait: '10s' });
  if (task === undefined) throw new Error('no run within 10 s');
  const run = scheduledRun(task.pid);
  const instant = run?.at.getTime() ?? 0;
  console.log(runs === 1 ? `first run of ${run?.schedule}` : `${(instant - last) / 1000} s later`);
  last = instant;
  await task.complete();
}

await client.schedules.pause('schedule#report');
const { pid } = await client.schedules.trigger('schedule#report');
console.log(`a paused schedule can be triggered: ${scheduledRun(pid)?.isTriggered}`);
for await (const { name, paused, counts } of client.schedules.list({ group: 'schedule' })) {
  console.log(`${name}: ${counts.enqueued >= 3 ? 'at least 3' : counts.enqueued} runs${paused ? ', paused' : ''}`);
  await client.schedules.delete(name);
}
await client.queue('schedule#reports').delete();
await checks.delete();
