import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { root } from '../support/paths.ts';

const CONNECT = "connect('127.0.0.1:7400')";

let dir: string;
beforeAll(async () => {
  // Within the repository, so that the code finds the packages like a user's program.
  dir = await mkdtemp(join(root, 'test', '.snippets-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

async function codeOf(guide: string, name: string): Promise<string> {
  const text = await readFile(join(root, 'docs/guides', `${guide}.md`), 'utf8');
  const code = new RegExp(`<!-- snippet: ${name} -->\\n\`\`\`ts\\n(.*?)\`\`\``, 's').exec(text)?.[1];
  if (code === undefined) throw new Error(`${guide} has no snippet ${name}`);
  return code;
}

/** Runs a block of code of a guide, with a queue in memory in place of a node. Resolves with the lines that it prints. */
async function run(guide: string, name: string): Promise<readonly string[]> {
  const text = (await codeOf(guide, name)).replace('./resize.js', './resize.ts');
  const code = text.replaceAll("'shop.db'", JSON.stringify(join(dir, 'shop.db')));
  const memory = "import { openMemory as openForGuide } from '@taskmaster/node/memory';\n";
  const file = join(dir, `${guide}-${name}.ts`);
  await writeFile(file, code.includes(CONNECT) ? memory + code.replace(CONNECT, 'openForGuide()') : code);
  const lines: string[] = [];
  using _log = vi.spyOn(console, 'log').mockImplementation((...what: unknown[]) => void lines.push(what.join(' ')));
  await import(pathToFileURL(file).href);
  return lines;
}

describe('the code of the guide on workers at run time', () => {
  test('runs a handler for each queue', async () => {
    expect((await run('running-workers', 'workers')).toSorted()).toEqual([
      'a.png becomes 300 wide',
      'mail to ann@example.com',
      'thumbnail of b.png',
    ]);
  });

  test('changes a worker that runs', async () => {
    expect(await run('running-workers', 'steering')).toEqual(['mail to ann', '1 waits', 'mail to bob']);
  });

  test('runs middleware, and hooks in its context', async () => {
    expect(await run('running-workers', 'middleware')).toEqual([
      'attempt 1 begins',
      'order-17: mail to ann@example.com',
      'order-17: completed',
    ]);
  });

  test('runs a handler in a thread', async () => {
    await writeFile(join(dir, 'resize.ts'), await codeOf('running-workers', 'resize'));
    expect(await run('running-workers', 'threads')).toEqual(['a.png at 300']);
  });

  test('finds and cancels a task in its group', async () => {
    expect(await run('running-workers', 'find')).toEqual([
      'available in shop#pack',
      'cancelled in shop#pack',
      '0 left',
    ]);
  });
});

describe('the code of the guide on tests', () => {
  test.each(['fake', 'empty'])('%s', async (name) => {
    expect(await run('testing-your-handlers', name)).toEqual(['tested']);
  });
});

test('the code of the guide on results checks them', async () => {
  expect(await run('results', 'schema')).toEqual(['the total is 170']);
});

describe('the code of the guide on outboxes', () => {
  test('enqueues in a transaction, and a relay takes the task to the node', async () => {
    expect(await run('outbox', 'enqueue')).toEqual(['mail for order-17: order 17']);
  });

  test('records a completion in the transaction of the work', async () => {
    expect(await run('outbox', 'completions')).toEqual(['ann has 125']);
  });
});
