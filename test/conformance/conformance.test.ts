import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startNodeThread } from '../client/support/node-thread.ts';
import { eventually } from '../support/eventually.ts';
import { playScenario } from './runner.ts';

const folder = new URL('./', import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith('.txt'));

// test/process/python-client.test.ts plays the same files.
describe('the client of TypeScript plays the scenario', () => {
  // A handler that blocks its thread must not block the node.
  let node: ReturnType<typeof startNodeThread>;
  beforeAll(async () => {
    node = startNodeThread();
    await eventually(() => expect(node.port).toBeGreaterThan(0));
  });
  afterAll(() => node[Symbol.asyncDispose]());

  test.each(files)('%s', async (file) => {
    const text = readFileSync(new URL(file, folder), 'utf8');
    expect(await playScenario(`127.0.0.1:${node.port}`, text)).toBe('');
  });
});
