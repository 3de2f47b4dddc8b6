import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdir, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect as connectSocket, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { connect, isTaskMasterError } from '@taskmaster/client';
import { fingerprintOf } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { nodeCli } from '../support/paths.ts';
import { type Ended, startProcess } from '../support/processes/child-process.ts';
import { type RunningNode, runNode, startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { watchAll } from '../support/watch-all.ts';

/** True if `script` of util-linux is there: it gives a program a terminal. */
const hasScript = spawnSync('script', ['--version']).status === 0;

/** Sends half a request: it stays in flight, because the other half never arrives. */
async function halfARequest({ grpcPort }: RunningNode): Promise<Socket> {
  const socket = connectSocket(grpcPort, '127.0.0.1').on('error', () => {});
  await once(socket, 'connect');
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  await once(socket, 'data');
  return socket;
}

/** Standard error must have one line beside the log, and no stack. */
function expectOneClearLine({ stderr }: Ended, ...says: string[]): void {
  const lines = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{"level":"info"'));
  for (const text of says) expect(stderr).toContain(text);
  expect(stderr).not.toMatch(/^\s+at /m);
  expect(stderr).not.toContain('\\n    at ');
  expect(lines).toHaveLength(1);
}

test('only the user of a node can read its files', async () => {
  await using dir = await temporaryDirectory();
  const data = join(dir.path, 'data');
  await using node = await startNode({ dir: data });
  await using client = await connect(node.endpoint);
  await client.queue('jobs').enqueue('secret');
  const names = await readdir(data);
  expect(names).toContain('format');
  for (const path of [data, ...names.map((name) => join(data, name))]) {
    expect(((await stat(path)).mode & 0o077).toString(8), path).toBe('0');
  }
});

describe('a node that cannot start says why in one line', { timeout: 60_000 }, () => {
  test('when a newer release has written its directory, which it does not change', async () => {
    await using dir = await temporaryDirectory();
    const data = join(dir.path, 'data');
    await using node = await startNode({ dir: data });
    await node.stop();
    const format = { format: 9, writtenBy: '7.8.9', oldestReader: 9, readableFrom: '7.0.0' };
    const body = JSON.stringify(format);
    await writeFile(join(data, 'format'), `${body}\n${crc32(body)}\n`);
    const before = await fingerprintOf(data);
    const ended = await runNode({ dir: data });
    expect(ended.code).toBe(1);
    expectOneClearLine(ended, data, 'data format 9, written by release 7.8.9', 'Start release 7.0.0 or newer');
    expect(await fingerprintOf(data)).toEqual(before);
  });

  test('when another node uses its directory; the other one continues', async () => {
    await using node = await startNode();
    await using client = await connect(node.endpoint);
    await client.queue('jobs').enqueue('before');
    const second = await runNode({ dir: node.dir });
    expect(second.code).toBe(1);
    expectOneClearLine(second, node.dir, 'in use by another process');
    await client.queue('jobs').enqueue('after');
    const tasks = await client.queue('jobs').lease({ max: 10 });
    expect(tasks.map(({ data }) => data)).toEqual(['before', 'after']);
  });

  test.each(['grpc', 'http'])('when its %s port is in use, and releases the directory', async (which) => {
    await using dir = await temporaryDirectory();
    await using listener = createServer().listen(0, '127.0.0.1');
    await once(listener, 'listening');
    const { port } = listener.address() as AddressInfo;
    const refused = await runNode({ dir: dir.path, flags: [`--${which}-port=${port}`] });
    expect(refused.code).toBe(1);
    expectOneClearLine(refused, String(port), 'in use');
    await using node = await startNode({ dir: dir.path });
    expect(node.grpcPort).toBeGreaterThan(0);
  });

  test('when its directory cannot be created', async () => {
    await using dir = await temporaryDirectory();
    await writeFile(join(dir.path, 'file'), '');
    const refused = await runNode({ dir: join(dir.path, 'file', 'data') });
    expect(refused.code).toBe(1);
    expectOneClearLine(refused, join(dir.path, 'file'));
  });
});

describe('a node whose settings are wrong ends with 2 and names them', { timeout: 60_000 }, () => {
  test.each([
    ['a file that is not YAML', 'dataDir: [', 'node.yaml'],
    ['a file that is not a map of settings', '- 1\n- 2\n', 'node.yaml'],
  ])('%s', async (_case, text, named) => {
    await using dir = await temporaryDirectory();
    await writeFile(join(dir.path, 'node.yaml'), text);
    const ended = await runNode({ dir: dir.path, flags: [`--config=${join(dir.path, 'node.yaml')}`] });
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain(named);
    expect(ended.stderr).not.toMatch(/^\s+at /m);
  });

  test('all of them at once, with the source of each', async () => {
    await using dir = await temporaryDirectory();
    const file = join(dir.path, 'node.yaml');
    // One that does not exist, and one that is out of bounds.
    await writeFile(file, 'engine:\n  cacheBites: 1MiB\n  cacheBytes: 1\n');
    const ended = await runNode({
      dir: dir.path,
      flags: ['--store-reserve-bytes=lots', `--config=${file}`],
      env: { TASKMASTER_ENGINE_MAX_WAITERS: '-1' },
    });
    expect(ended.code).toBe(2);
    const flags = ['--store-reserve-bytes', 'lots', 'TASKMASTER_ENGINE_MAX_WAITERS', '-1'];
    for (const named of [...flags, 'engine.cacheBites', 'engine.cacheBytes']) {
      expect(ended.stderr).toContain(named);
    }
  });

  test('a missing file, and a flag that does not exist', async () => {
    await using dir = await temporaryDirectory();
    const missing = await runNode({ dir: dir.path, flags: [`--config=${join(dir.path, 'none.yaml')}`] });
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining('none.yaml') });
    const unknown = await runNode({ dir: dir.path, flags: ['--no-such-flag=1'] });
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('--no-such-flag') });
  });
});

describe('a node whose log cannot be written', { timeout: 60_000 }, () => {
  test.skipIf(process.platform !== 'linux')('because its disk is full, serves', async () => {
    // Every write to it fails as on a full disk.
    await using node = await startNode({ behind: ['sh', '-c', 'exec "$0" "$@" 2> /dev/full'] });
    await using client = await connect(node.endpoint);
    await client.queue('jobs').enqueue('x');
    expect((await node.stop()).code).toBe(0);
  });
});

/**
 * A node with this flag waits up to a minute for open calls. If it ends within `AT_ONCE_MS`, it has not waited for all that time.
 */
const PATIENT = '--shutdown-timeout-ms=60000';
const AT_ONCE_MS = 30_000;

describe('a node that is stopped', { timeout: 60_000 }, () => {
  test('under load finishes the calls in flight, exits with 0, has lost nothing, and restarts at once', async () => {
    await using dir = await temporaryDirectory();
    await using node = await startNode({ dir: dir.path, flags: [PATIENT] });
    // No retries: every acknowledged task must exist.
    await using client = await connect({ endpoints: node.endpoint, retry: { maxAttempts: 1 } });
    const jobs = client.queue<number>('jobs');
    const acknowledged = new Set<number>();
    const failures: unknown[] = [];
    let stopping = false;
    let next = 0;
    const enqueueUntilRefused = async (): Promise<void> => {
      for (;;) {
        const number = next++;
        try {
          await jobs.enqueue(number);
          acknowledged.add(number);
        } catch (error) {
          failures.push(error);
          return;
        }
      }
    };
    const load = Promise.all(Array.from({ length: 64 }, enqueueUntilRefused));
    const endOfPoll = async () => {
      const outcome = await client
        .queue('empty')
        .lease({ wait: '5m' })
        .catch((error: unknown) => error);
      expect(stopping).toBe(true);
      return outcome;
    };
    const polls = Promise.all(Array.from({ length: 100 }, endOfPoll)).then((outcomes) => ({
      outcomes,
      at: performance.now(),
    }));
    await eventually(() => expect(acknowledged.size).toBeGreaterThan(1_000));

    stopping = true;
    const told = performance.now();
    const ended = await node.stop();
    const tookMs = performance.now() - told;
    expect(ended).toMatchObject({ code: 0, stderr: expect.not.stringContaining('"level":"error"') });
    expect(tookMs).toBeLessThan(AT_ONCE_MS);
    await load;
    for (const error of failures) {
      expect(isTaskMasterError(error) && ['SHUTTING_DOWN', 'UNAVAILABLE'].includes(error.reason), String(error)).toBe(
        true,
      );
    }
    const { outcomes, at } = await polls;
    expect(at - told).toBeLessThan(AT_ONCE_MS);
    for (const outcome of outcomes) {
      if (Array.isArray(outcome)) expect(outcome).toEqual([]);
      else expect(outcome).toMatchObject({ code: 14 });
    }

    await using again = await startNode({ dir: dir.path });
    // It has nothing to replay.
    expect(again.process.stderr).toContain('"replayedAtoms":0');
    await using reader = await connect(again.endpoint);
    const found = new Set<number>();
    const { available } = await reader.queue('jobs').stats();
    while (found.size < available) {
      const tasks = await reader.queue<number>('jobs').lease({ max: 10_000 });
      expect(tasks).not.toEqual([]);
      for (const { data } of tasks) found.add(data);
    }
    expect([...acknowledged].filter((number) => !found.has(number))).toEqual([]);
  });

  test('waits for open calls for a limited time, and ends at once on a second signal', async () => {
    await using node = await startNode({ flags: [PATIENT] });
    await using socket = await halfARequest(node);
    expect(socket.destroyed).toBe(false);
    const told = performance.now();
    process.kill(node.pid, 'SIGINT');
    await eventually(async () => {
      const answer = await fetch(`http://127.0.0.1:${node.httpPort}/readyz`).then(
        ({ status }) => status,
        () => 'closed',
      );
      expect(answer).not.toBe(200);
    });
    const ended = await node.stop('SIGINT');
    expect(performance.now() - told).toBeLessThan(AT_ONCE_MS);
    expect(ended.code).not.toBe(0);
  });

  test('by a terminal that closes, stops in good order although the signal arrives twice', async () => {
    await using node = await startNode({ flags: ['--shutdown-timeout-ms=500'] });
    await using socket = await halfARequest(node);
    expect(socket.destroyed).toBe(false);
    process.kill(node.pid, 'SIGHUP');
    await eventually(() => expect(node.process.stderr).toContain('"msg":"shutting down'));
    expect(await node.stop('SIGHUP')).toMatchObject({ code: 0, stderr: expect.stringContaining('"msg":"stopped"') });
  });

  test.skipIf(!hasScript)(
    `by a terminal that closes, stops in good order although its log is gone${hasScript ? '' : ' (skipped: needs script of util-linux)'}`,
    async () => {
      await using dir = await temporaryDirectory();
      // Only a clean stop writes a checkpoint in this time.
      const flags = [
        '--json',
        `--data-dir=${dir.path}`,
        '--grpc-port=0',
        '--http-port=0',
        '--engine-checkpoint-interval-ms=60000',
      ];
      const line = [process.execPath, nodeCli, ...flags].join(' ');
      await using terminal = await startProcess('script', ['--quiet', '--command', line, '/dev/null']);
      const ready = await eventually(() => {
        const said = /^\{"ready":true.*\}/m.exec(terminal.stdout)?.[0];
        expect(said).toBeDefined();
        return JSON.parse(said ?? '') as { readonly grpc: string; readonly pid: number };
      });
      {
        await using client = await connect(ready.grpc);
        await client.queue('jobs').enqueue('x');
      }
      await terminal.kill('SIGKILL');
      await eventually(() => expect(() => process.kill(ready.pid, 0)).toThrow('ESRCH'));
      await using again = await startNode({ dir: dir.path });
      expect(again.process.stderr).toContain('"replayedAtoms":0,"queues":1');
    },
  );

  test('with clients that watch its health, tells them and ends at once', async () => {
    await using node = await startNode({ flags: [PATIENT] });
    const watching = await watchAll(node.grpcPort);
    const told = performance.now();
    expect((await node.stop()).code).toBe(0);
    expect(performance.now() - told).toBeLessThan(AT_ONCE_MS);
    await watching.toldToEnd();
  });

  test('without open calls ends at once', async () => {
    // The tests before end it with the other signals.
    await using node = await startNode({ flags: [PATIENT] });
    const told = performance.now();
    expect((await node.stop('SIGINT')).code).toBe(0);
    expect(performance.now() - told).toBeLessThan(AT_ONCE_MS);
  });
});
