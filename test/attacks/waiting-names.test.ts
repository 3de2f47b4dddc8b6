import { status } from '@grpc/grpc-js';
import { connect } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { figuresOf, hasFigures } from '../support/processes/process-figures.ts';
import { startNode } from '../support/processes/start-node.ts';
import { WireClient } from '../support/wire-client.ts';

const MIB = 1024 * 1024;
const MEMORY = 320;
const POLLS = 400;
const NAMES = 1_000;
const NAME_BYTES = 490;

test.skipIf(!hasFigures)('long polls with many long names are refused before memory runs out', async () => {
  await using node = await startNode({ asShipped: true, flags: [`--memory=${MEMORY}MiB`] });
  await using others = await connect(node.endpoint);
  const queue = others.queue<number>('others');
  await queue.enqueue(0);
  const before = figuresOf(node.pid).rssBytes;
  let refused = 0;
  {
    using client = new WireClient(node.endpoint);
    const ended = new AbortController();
    const polls: Promise<void>[] = [];
    for (let poll = 0; poll < POLLS; poll++) {
      const queues = Array.from({ length: NAMES }, (_, name) => `${poll}-${name}-`.padEnd(NAME_BYTES, 'q'));
      const made = client.lease({ queues, waitMs: 60_000 }, { signal: ended.signal }).then(
        () => {},
        ({ code }) => {
          if (code === status.RESOURCE_EXHAUSTED) refused++;
        },
      );
      polls.push(made);
      if (poll % 20 === 19) await queue.enqueue(poll);
    }
    await expect.poll(() => refused, { timeout: 30_000 }).toBeGreaterThan(POLLS * 0.9);
    const { rssBytes } = figuresOf(node.pid);
    console.log(
      `${refused} of ${POLLS} refused, memory ${(before / MIB).toFixed(0)} → ${(rssBytes / MIB).toFixed(0)} MiB`,
    );
    expect(rssBytes).toBeLessThan(MEMORY * MIB);
    ended.abort();
    await Promise.all(polls);
  }
  expect(await queue.enqueue(1)).toBeDefined();
});
