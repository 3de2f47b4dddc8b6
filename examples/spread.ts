/**
 * Requests of users are accepted while any of several clusters is up, and workers do the work of all of them. With one address it
 * spreads them over two groups of one cluster instead. Needs nodes: `npm start`.
 *
 *     npm run example spread [host:port...]
 */
import { connect, spread } from '@taskmaster/client';

interface Doc {
  readonly name: string;
}

const endpoints = process.argv.length > 2 ? process.argv.slice(2) : ['127.0.0.1:7400'];
const clients = await Promise.all(endpoints.map((endpoint) => connect(endpoint)));
const [only, ...others] = clients;
const queues =
  only !== undefined && others.length === 0
    ? ['docs-a#convert', 'docs-b#convert'].map((name) => only.queue<Doc>(name))
    : clients.map((client) => client.queue<Doc>('docs#convert'));
const conversions = spread(queues, {
  onFailOver: (error, queue) => console.log(`${queue.name} has failed (${error.reason}), trying the next one`),
});

// If one cluster is down, the next one gets the task at once. The PID goes with it, so that a document that two clusters
// have got is recognized.
for (let number = 1; number <= 6; number++) {
  const name = `doc-${number}`;
  await conversions.enqueue({ name }, { pid: name });
}
const { available, targets } = await conversions.stats();
console.log(`${available} documents in ${targets.length} queues`);

// Work that may come twice must be idempotent: here the name says whether it is done.
const converted = new Set<string>();
const { promise: allDone, resolve } = Promise.withResolvers<void>();
await using worker = conversions.worker(
  ({ data }) => {
    converted.add(data.name);
  },
  {
    concurrency: 2,
    onTaskCompleted: () => {
      if (converted.size === 6) resolve();
    },
  },
);
worker.start();
await allDone;
await worker.stop();
console.log(`${converted.size} documents converted`);
await Promise.all(clients.map((client) => client.close()));
