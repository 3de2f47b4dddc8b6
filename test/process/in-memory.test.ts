import { expect, test } from 'vitest';
import { root } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';

const program = `
import { openMemory, TestClock } from '@taskmaster/node/memory';
const clock = new TestClock();
await using client = await openMemory({ clock });
await client.queue('mail').enqueue('ann', { delay: '1m' });
await clock.advance('1m');
const [task] = await client.queue('mail').lease();
const native = process.report.getReport().sharedObjects.filter((file) => file.endsWith('.node'));
console.log(JSON.stringify({ data: task.data, native, open: process.getActiveResourcesInfo() }));
`;

test('a queue in memory loads nothing native, opens nothing, and does not keep the process alive', async () => {
  const { code, stdout, stderr } = await runProcess(process.execPath, ['--input-type=module', '-e', program], {
    cwd: root,
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const { data, native, open } = JSON.parse(stdout);
  expect({ data, native }).toEqual({ data: 'ann', native: [] });
  // The pipe of its own output does not count.
  expect(open.filter((resource: string) => resource !== 'PipeWrap')).toEqual([]);
});
