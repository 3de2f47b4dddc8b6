/**
 * A handler against a real queue in memory, on a clock that the program advances. Tests of handlers look like this.
 *
 *     npm run example in-memory
 */
import { openMemory, TestClock } from '@taskmaster/node/memory';

const clock = new TestClock(new Date('2030-01-01T00:00:00Z'));
await using client = await openMemory({ clock });
const mail = client.queue<string>('mail');

await using worker = client.worker(mail, async ({ data, attempt }) => {
  console.log(`${clock.now().toISOString()} attempt ${attempt} for ${data}`);
  if (attempt < 3) throw new Error('the mail server is busy');
});
worker.start();

await mail.enqueue('ann@example.com', { delay: '1h', retry: { maxAttempts: 5, backoff: { initial: 0 } } });
await clock.advance('59m');
console.log(`after 59 minutes: ${(await mail.stats()).delayed} delayed`);
await clock.advance('1m');
console.log(`after an hour: ${(await mail.stats()).delayed} delayed`);
