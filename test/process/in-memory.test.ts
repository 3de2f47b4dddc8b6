import { expect, test } from 'vitest';
import { root } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';

const program = `
import { startNode } from '@taskmaster/node';
import { openMemory, TestClock } from '@taskmaster/node/memory';
const clock = new TestClock();
await using client = await openMemory({ clock });
await client.queue('mail').enqueue('ann', { delay: '1m' });
await clock.advance('1m');
const [task] = await client.queue('mail').lease();
const settings = { host: '127.0.0.1', grpcPort: 0, httpPort: 0, logLevel: 'error' };
await (await startNode(settings, { development: { inMemory: true } })).stop();
// Closed servers are released in a later turn.
await new Promise((resolve) => setTimeout(resolve, 0));
const native = process.report.getReport().sharedObjects.filter((file) => file.endsWith('.node'));
console.log(JSON.stringify({ data: task.data, native, open: process.getActiveResourcesInfo() }));
`;

test('a queue and a node in memory load nothing native, leave nothing open, and keep no process alive', async () => {
  const { code, stdout, stderr } = await runProcess(process.execPath, ['--input-type=module', '-e', program], {
    cwd: root,
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const { data, native, open } = JSON.parse(stdout);
  expect({ data, native }).toEqual({ data: 'ann', native: [] });
  // The pipe of its own output does not count.
  expect(open.filter((resource: string) => resource !== 'PipeWrap')).toEqual([]);
});
