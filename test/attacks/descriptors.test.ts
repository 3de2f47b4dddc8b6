import { spawnSync } from 'node:child_process';
import { connect } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { hasFigures } from '../support/processes/process-figures.ts';
import { startNode } from '../support/processes/start-node.ts';

/** Fewer than a node has open, so that it can open no file. */
const FEW = 10;
/** The store looks at its files once a second. */
const LOOKS_MS = 2_500;

const hasPrlimit = hasFigures && spawnSync('prlimit', ['--version']).status === 0;

test.skipIf(!hasPrlimit)('a store that looks at its files while the process cannot open any goes on', async () => {
  await using node = await startNode();
  await using client = await connect(node.endpoint);
  const queue = client.queue<number>('q');
  await queue.enqueue(0);
  const limit = (descriptors: number): void => {
    const { status } = spawnSync('prlimit', ['--pid', String(node.pid), `--nofile=${descriptors}:`]);
    expect(status).toBe(0);
  };
  limit(FEW);
  const end = performance.now() + LOOKS_MS;
  let tasks = 1;
  // The limit is in force: the node cannot accept a connection.
  await expect(
    fetch(`http://127.0.0.1:${node.httpPort}/livez`, { signal: AbortSignal.timeout(500) }),
  ).rejects.toThrow();
  while (performance.now() < end) {
    await queue.enqueue(tasks);
    tasks++;
  }
  limit(1_000);
  await queue.enqueue(tasks);
  expect((await queue.stats()).available).toBe(tasks + 1);
  expect((await fetch(`http://127.0.0.1:${node.httpPort}/readyz`)).status).toBe(200);
});
