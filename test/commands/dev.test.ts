import { createServer } from 'node:net';
import { join } from 'node:path';
import { startCli } from '@taskmaster/cli/testing';
import { connect, type QueueEvent } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** Starts `taskmaster dev` in this process. Resolves when its node is ready, with its address. */
async function startDev(args: readonly string[] = [], endpoint = '127.0.0.1:0') {
  const running = startCli(undefined, ['dev', '--json', '-e', endpoint, ...args]);
  const lines = (): (QueueEvent & { tookMs?: number; stack?: string })[] =>
    running.stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));
  const ended = running.ended.then(({ code, stderr }) => {
    throw new Error(`dev has ended with ${code}: ${stderr}`);
  });
  const ready = await Promise.race([
    eventually(() => {
      const [first] = lines() as unknown as { address: string; console: string; data: string }[];
      if (first === undefined) throw new Error('is not ready');
      return first;
    }),
    ended,
  ]);
  const told = () => lines().flatMap(({ kind, queue, key }) => (kind === undefined ? [] : [[kind, queue, key]]));
  const end = async (): Promise<number> => {
    running.interrupt();
    return (await running.ended).code;
  };
  ended.catch(() => {});
  return { ...ready, lines, told, end };
}

test('dev tells of tasks of all groups from their first event on, and a second one of the same', async () => {
  const first = await startDev();
  const second = await startDev([], first.address);
  expect(second).toMatchObject({ address: first.address, data: 'of another process' });
  const client = await connect(first.address);
  const mail = client.queue<{ to: string }>('shop#mail');
  await mail.enqueue({ to: 'ann' }, { key: 'order-1', retry: { maxAttempts: 1 } });
  const worker = client.worker(mail, async () => {
    throw new Error('no such address');
  });
  worker.start();
  const expected = ['enqueued', 'leased', 'dead-lettered'].map((kind) => [kind, 'shop#mail', 'order-1']);
  await eventually(() => expect(first.told()).toEqual(expected));
  await eventually(() => expect(second.told()).toEqual(expected));
  await worker.stop();
  const [, enqueued, , dead] = first.lines();
  expect(enqueued).toMatchObject({ text: '{"to":"ann"}' });
  expect(dead).toMatchObject({ attempts: 1, tookMs: expect.any(Number), text: 'Error: no such address' });
  expect(dead?.stack).toContain('dev.test.ts');
  expect(dead?.stack).not.toContain('node:');
  await client.close();
  expect(await second.end()).toBe(0);
  expect(await first.end()).toBe(0);
});

test('keys retry and drop the task that is chosen', async () => {
  const node = await startDev();
  await using client = await connect(node.address);
  const queue = client.queue<string>('shop#mail');
  const die = async (key: string): Promise<void> => {
    await queue.enqueue('x', { key, retry: { maxAttempts: 1 } });
    for (const task of await queue.lease({ wait: '10s' })) await task.release({ error: new Error(`boom of ${key}`) });
  };
  await die('retried');
  await die('dropped');
  const screen = startCli(undefined, ['dev', '-e', node.address], { isTerminal: true });
  const shown = (): string => screen.stdout.split('\u001b[H').at(-1)?.replaceAll('\u001b[K', '') ?? '';
  // The latest one is chosen.
  await eventually(() => expect(shown()).toMatch(/> .*dropped +dead +1 .*Error: boom of dropped/));
  expect(shown()).toContain('2 dead letters');
  screen.type('\u001b[B');
  await eventually(() => expect(shown()).toMatch(/> .*retried +dead/));
  screen.type('r');
  await eventually(() => expect(shown()).toMatch(/retried +waiting/));
  expect(shown()).toMatch(/> .*dropped +dead/);
  screen.type('d');
  await eventually(() => expect(shown()).toMatch(/dropped +removed/));
  expect((await queue.get([{ key: 'retried' }], { data: false }))[0]).toMatchObject({ state: 'available' });
  expect(await client.queue('shop#mail.dead').stats()).toMatchObject({ available: 0 });
  screen.type('q');
  expect((await screen.ended).code).toBe(0);
  expect(await node.end()).toBe(0);
});

test('dev with a directory has its tasks again', async () => {
  await using directory = await temporaryDirectory();
  const data = join(directory.path, 'data');
  for (const expected of [[], ['kept']]) {
    const node = await startDev(['--data', data]);
    const client = await connect(node.address);
    expect((await client.queue('q').peek()).map(({ key }) => key)).toEqual(expected);
    await client.queue('q').enqueue('x', { key: 'kept', mode: 'collapse' });
    await client.close();
    expect(await node.end()).toBe(0);
  }
}, 60_000);

test('dev says what keeps its node from starting', async () => {
  const foreign = createServer((socket) => socket.on('error', () => {}).end('hello\n'));
  await new Promise<void>((resolve) => foreign.listen(0, '127.0.0.1', resolve));
  const { port } = foreign.address() as { port: number };
  const run = (...args: string[]) => startCli(undefined, ['dev', ...args]).ended;
  const taken = await run('-e', `127.0.0.1:${port}`, '--connect-timeout', '200ms');
  expect(taken).toMatchObject({ code: 1, stderr: expect.stringContaining('is taken by a program that is no node') });
  const http = await run('-e', '127.0.0.1:0', '--http-port', String(port));
  expect(http).toMatchObject({ code: 1, stderr: expect.stringContaining(`port ${port} of 127.0.0.1, for HTTP`) });
  foreign.close();
  const remote = await run('-e', 'queue.example:7400');
  expect(remote).toMatchObject({ code: 2, stderr: expect.stringContaining('dev is for this machine') });
}, 60_000);
