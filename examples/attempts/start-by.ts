/**
 * Tasks that are of no use when they are late. Needs a node: `npm start`.
 *
 *     npm run example start-by [host:port]
 */
import { connect } from '@taskmaster/client';

await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const codes = client.queue<{ to: string }>('login#codes');

// No worker has time for it within 300 ms.
await codes.enqueue({ to: 'ann' }, { pid: 'ann', startWithin: '300ms' });
const ann = await codes.waitForEnd('ann', { timeout: '10s' });
console.log(`ann: ${ann.outcome}, ${ann.cancelReason?.replace(/by .*/, 'in time')}`);

// With a dead-letter queue of its own choice it is kept there.
await codes.enqueue({ to: 'bob' }, { pid: 'bob', startWithin: '300ms', retry: { deadLetterQueue: 'login#late' } });
const bob = await codes.waitForEnd('bob', { timeout: '10s' });
console.log(`bob: ${bob.outcome}, ${bob.error?.replace(/by .*/, 'in time')}`);

// A task that was leased in time is as any other: it may take long, and is retried.
await codes.enqueue({ to: 'eve' }, { pid: 'eve', startWithin: '1m' });
const [eve] = await codes.lease();
console.log(`eve: attempt ${eve?.attempt}`);
await eve?.complete();

await client.queue('login#late').delete();
