import { connect, type TaskMasterError } from '@taskmaster/client';

/*
 * A tenant that always has work, with the client library, which waits after a refusal as the server asks:
 * `busy-tenant.ts ENDPOINT TOKEN`. Prints a JSON line with the outcomes so far every 200 ms.
 */

const [endpoint = '', token = ''] = process.argv.slice(2);
const LOOPS = 50;
const outcomes: Record<string, number> = {};
const count = (outcome: string): void => {
  outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
};
type Refused = Pick<TaskMasterError, 'metadata' | 'reason'>;
const countRefusal = ({ metadata, reason }: Refused): void => count(metadata.quota ?? reason);

const client = await connect({
  endpoints: endpoint,
  token,
  onCallRetried: ({ error }) => countRefusal(error),
});
const queue = client.queue<number>('busy#work');

async function work(): Promise<void> {
  for (;;) {
    await queue.enqueue(1).then(() => count('served'), countRefusal);
  }
}
setInterval(() => console.log(JSON.stringify(outcomes)), 200);
await Promise.all(Array.from({ length: LOOPS }, work));
