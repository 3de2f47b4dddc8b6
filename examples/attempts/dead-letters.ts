/**
 * Why tasks failed, and what becomes of them. Needs a node: `npm start`.
 *
 *     npm run example dead-letters [host:port]
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type LeasedTask, UnrecoverableError } from '@taskmaster/client';

interface Mail {
  readonly to: string;
}

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const outbox = client.queue<Mail>('letters#outbox');
const dead = client.deadLetters('letters#outbox.dead');
const retry = { maxAttempts: 2 } as const;

await outbox.enqueueMany(
  ['ann@example.com', 'nobody', 'bob@example.com'].map((to) => ({ pid: to, data: { to }, retry })),
);

let isServerUp = false;
function send({ data }: LeasedTask<Mail>): void {
  // No retry can help, so the task goes to the dead letters at once.
  if (!data.to.includes('@')) throw new UnrecoverableError('no such address');
  if (!isServerUp) throw new Error('connect ECONNREFUSED');
  console.log(`sent to ${data.to}`);
}

await using worker = client.worker(outbox, send);
worker.start();

const waitFor = async (isDone: () => Promise<boolean>): Promise<void> => {
  while (!(await isDone())) await sleep(20);
};
await waitFor(async () => (await client.queue('letters#outbox.dead').stats()).available === 3);
for await (const { pid, attempts, failures } of dead.list()) {
  console.log(`${Buffer.from(pid)}: ${failures.at(-1)?.error?.message}, attempt ${attempts}`);
}

// The mail server is up again: put back what failed because of it, and drop the rest.
isServerUp = true;
const { settled } = await dead.retry({
  where: ({ failures }) => /ECONNREFUSED/.test(failures.at(-1)?.error?.message ?? ''),
});
console.log(`${settled} tasks put back`);
await waitFor(async () => (await outbox.stats()).completed === 2);
console.log(`${(await dead.drop()).settled} task dropped`);
