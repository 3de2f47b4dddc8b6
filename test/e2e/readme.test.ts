import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { root } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';

/** The address of the node in the README. */
const DOCUMENTED_ENDPOINT = '127.0.0.1:7400';

let node: RunningNode;
let dir: string;
beforeAll(async () => {
  node = await startNode();
  // Within the repository, so that the snippets find the packages like a user's program.
  dir = await mkdtemp(join(root, 'test', '.snippets-'));
});
afterAll(async () => {
  await node?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

async function runSnippet(name: string): Promise<string> {
  const readme = await readFile(join(root, 'README.md'), 'utf8');
  const code = new RegExp(`<!-- snippet: ${name} -->\\n\`\`\`ts\\n(.*?)\`\`\``, 's').exec(readme)?.[1];
  if (code === undefined) throw new Error(`the README has no snippet ${name}`);
  const file = join(dir, `${name}.ts`);
  await writeFile(file, code.replaceAll(DOCUMENTED_ENDPOINT, node.endpoint));
  const { code: exit, stdout, stderr } = await runProcess(process.execPath, [file], { cwd: dir });
  expect(stderr).toBe('');
  expect(exit).toBe(0);
  return stdout;
}

test('the README leads to a leased task', async () => {
  expect(await runSnippet('hello')).toBe('sending to ada@example.com\n');
});

test("the README's pipeline moves a task to its next stage", async () => {
  expect(await runSnippet('pipeline')).toBe("{ url: 'https://example.com/', words: 20 }\n");
});

test("the README's embedded queue needs no server", async () => {
  expect(await runSnippet('embedded')).toBe('');
});
