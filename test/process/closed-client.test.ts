import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { packageRoot } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';
import { startNode } from '../support/processes/start-node.ts';

const client = pathToFileURL(join(packageRoot('@taskmaster/client'), 'dist', 'index.js')).href;
/** No process listens there. */
const NOWHERE = '127.0.0.1:1';

/** Tells how long the process runs after its client is closed, in ms. */
const program = `
const { connect } = await import(${JSON.stringify(client)});
const client = await connect({ endpoints: process.argv.slice(1) });
await client.queue('q').enqueue(1);
await client.close();
const closedAt = performance.now();
process.on('exit', () => console.log(performance.now() - closedAt));`;

test('a program ends at once after its client is closed, although an endpoint is down', {
  timeout: 60_000,
}, async () => {
  await using node = await startNode();
  const args = ['--input-type=module', '-e', program, node.endpoint, NOWHERE];
  const { code, stdout, stderr } = await runProcess(process.execPath, args);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(Number(stdout)).toBeLessThan(2_500);
});
