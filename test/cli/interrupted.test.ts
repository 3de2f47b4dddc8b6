import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect, type TaskMasterClient, textCodec } from '@taskmaster/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import type { Running } from '../support/processes/child-process.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { type NodeUser, openNodeUser, openShell, type UserShell } from './shell.ts';

const MINUTE_MS = 60_000;

describe('a command that is interrupted', { timeout: MINUTE_MS }, () => {
  let user: NodeUser;
  let node: RunningNode;
  let client: TaskMasterClient;
  let shell: UserShell;
  beforeAll(async () => {
    user = await openNodeUser();
    ({ node, client, shell } = user);
  });
  afterAll(() => user[Symbol.asyncDispose]());

  async function available(queue: string): Promise<number> {
    return (await client.queue(queue).stats()).available;
  }

  test('by Ctrl-C while it enqueues lines reports exactly which lines are stored', async () => {
    await using running = await shell.start(['enqueue', 'ctrlc#jobs', '--lines', '--batch', '10', '--json']);
    const writing = writeWithoutEnd(running);
    await eventually(async () => expect(await available('ctrlc#jobs')).toBeGreaterThan(0));
    const ended = await running.kill('SIGINT');
    await writing;
    expect(ended.code).toBe(130);
    const report = JSON.parse(ended.stdout);
    expect(report).toMatchObject({ complete: false, unacknowledged: [] });
    expect(report.storedThroughLine).toBe(await available('ctrlc#jobs'));
    expect(ended.stderr).toBe('');
  });

  test('by SIGTERM exits with the code for it', async () => {
    await using running = await shell.start(['lease', 'nothing', '--wait', '5m']);
    await eventually(async () => expect(await waitingLeases(node)).toBe(1));
    const ended = await running.kill('SIGTERM');
    expect(ended).toMatchObject({ code: 143, stdout: '', stderr: '' });
    // Its wait has ended at the node, too: a new task is not leased to it.
    await eventually(async () => expect(await waitingLeases(node)).toBe(0));
  });

  test('by Ctrl-C while commands run ends them and releases their tasks without counting the attempts', async () => {
    await client.queue('ctrlc#exec').enqueue('x', { pid: 'p' });
    await using running = await shell.start([
      'lease',
      'ctrlc#exec',
      '--follow',
      '--exec',
      'echo begun; exec sleep 600',
    ]);
    await running.lines().next();
    const ended = await running.kill('SIGINT');
    expect(ended.code).toBe(130);
    expect(ended.stderr).toContain('released  ctrlc#exec  p');
    const [task] = await client.queue('ctrlc#exec').get(['p']);
    expect(task).toMatchObject({ state: 'available', attempts: 0 });
  });

  test('by the loss of its lease ends the command that runs', async () => {
    await client.queue('lost#jobs').enqueue('x', { pid: 'p' });
    const args = ['lease', 'lost#jobs', '--lease-duration', '3s', '--exec', 'echo begun; exec sleep 600'];
    await using running = await shell.start(args);
    await running.lines().next();
    expect(await client.queue('lost#jobs').resetLeases()).toBe(1);
    const ended = await running.ended;
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('LEASE_LOST');
    expect(ended.stderr).toContain('lost  lost#jobs  p');
  });

  test.each([
    ['watch', ['watch', '--json', '--interval', '1ms', '--group', 'many']],
    ['queues', ['queues', '--json', '--group', 'many']],
  ])('by the end of its reader exits silently: %s | head -1', async (_name, args) => {
    // More than a pipe holds, so that a write meets the closed end.
    if ((await client.stats({ filter: { group: 'many' } })).totals.queues === 0) {
      const update = client.update();
      for (let i = 0; i < 2_000; i++) update.enqueue(`many#queue-${i}`, i);
      await update.commit();
    }
    await using running = await shell.start(args);
    const { stdout } = running.process;
    if (stdout === null) throw new Error('its output is not piped');
    await once(stdout, 'data');
    stdout.destroy();
    expect(await running.ended).toMatchObject({ code: 0, stderr: '' });
  });

  test('watch ends by Ctrl-C', async () => {
    await using running = await shell.start(['watch', '--interval', '1ms']);
    await running.lines().next();
    expect(await running.kill('SIGINT')).toMatchObject({ code: 130, stderr: '' });
  });
});

describe('when the node is killed while lines are enqueued', () => {
  test('it reports that with exit code 3, and a second run stores the missing tasks and none twice', {
    timeout: 2 * MINUTE_MS,
  }, async () => {
    const lines = 30_000;
    await using first = await startNode();
    await using shell = await openShell(first.endpoint);
    const file = join(shell.dir, 'pages.jsonl');
    await writeFile(file, Array.from({ length: lines }, (_, i) => `{"id":"${i}"}\n`).join(''));
    const args = ['enqueue', 'killed#pages', '--lines', '--pid-field', 'id', '--batch', '20', '--file', file];
    {
      await using running = await shell.start([...args, '--timeout', '1s']);
      await using client = await connect(first.endpoint);
      await eventually(async () => {
        expect((await client.queue('killed#pages').stats()).available).toBeGreaterThan(0);
      });
      await first.kill();
      const ended = await running.ended;
      expect(ended.code).toBe(3);
      expect(ended.stderr).toContain('Run the command again to continue');
      expect(ended.stderr).toContain('taskmaster: ');
      expect(ended.stderr).not.toContain('    at ');
    }
    await using again = await startNode({ dir: first.dir, grpcPort: first.grpcPort });
    const ended = await shell.run(`taskmaster ${args.join(' ')} --batch 1000 --json`);
    expect(ended.code).toBe(0);
    const report = JSON.parse(ended.stdout);
    expect(report).toMatchObject({ complete: true, tasks: lines });
    expect(report.collapsed).toBeGreaterThan(0);
    await using client = await connect(again.endpoint);
    expect((await client.queue('killed#pages').stats()).available).toBe(lines);
  });
});

describe('a command without an end', () => {
  test('waits for a node that is down', { timeout: 2 * MINUTE_MS }, async () => {
    await using first = await startNode();
    await using shell = await openShell(first.endpoint);
    await using watching = await shell.start(['watch', 'lost#q', '--json', '--interval', '50ms', '--timeout', '500ms']);
    await using working = await shell.start(['lease', 'lost#q', '--follow', '--exec', 'cat', '--timeout', '500ms']);
    await watching.lines().next();
    await eventually(async () => expect(await waitingLeases(first)).toBe(1));
    await first.kill();
    await eventually(() => expect(watching.stderr).toContain('taskmaster: '));
    await using again = await startNode({ dir: first.dir, grpcPort: first.grpcPort });
    await using client = await connect(again.endpoint);
    await client.queue('lost#q', { codec: textCodec }).enqueue('hello');
    await eventually(
      () => {
        expect(working.stdout).toBe('hello');
        expect(watching.stdout).toContain('"completed":1');
      },
      { withinMs: MINUTE_MS / 2 },
    );
    expect((await working.kill('SIGINT')).code).toBe(130);
    expect((await watching.kill('SIGINT')).code).toBe(130);
  });
});

/** Writes lines until the program does not read any more. */
async function writeWithoutEnd(running: Running): Promise<void> {
  const { stdin } = running.process;
  if (stdin === null) throw new Error('its input is not piped');
  let isOver = false;
  void running.ended.then(() => {
    isOver = true;
  });
  for (let i = 0; !isOver && !stdin.destroyed; i++) {
    if (!stdin.write(`line ${i}\n`)) await Promise.race([once(stdin, 'drain').catch(() => undefined), running.ended]);
  }
}

/** Number of lease calls that wait for tasks, from the node's metrics. */
async function waitingLeases({ httpPort }: RunningNode): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${httpPort}/metrics`)).text();
  return Number(/^taskmaster_waiting_leases (\d+)$/m.exec(metrics)?.[1]);
}
