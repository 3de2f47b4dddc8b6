import { mkdir, readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { methodName, methods, TaskMasterServiceService, taskMethodKeys } from '@taskmaster/proto';
import { sampleBytes } from '@taskmaster/server/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { protoRoot, root } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { pythonWithGrpc } from './foreign-tools.ts';

const python = await pythonWithGrpc();
const skipped = python.kind === 'missing' ? ` (skipped: ${python.reason})` : '';

describe.skipIf(python.kind === 'missing')(`a program in Python${skipped}`, () => {
  const program = python.kind === 'ready' ? python.path : '';
  const script = join(dirname(fileURLToPath(import.meta.url)), 'python', 'every_call.py');

  test('uses every call, the error details, health and reflection with generated stubs', {
    timeout: 120_000,
  }, async () => {
    await using stubs = await temporaryDirectory();
    await mkdir(stubs.path, { recursive: true });
    const files = await readdir(join(protoRoot, 'taskmaster', 'v1'));
    const sources = files.filter((name) => name.endsWith('.proto')).map((name) => `taskmaster/v1/${name}`);
    const out = [`--python_out=${stubs.path}`, `--grpc_python_out=${stubs.path}`];
    const compiled = await runProcess(program, ['-m', 'grpc_tools.protoc', `-I${protoRoot}`, ...out, ...sources]);
    expect(compiled).toMatchObject({ code: 0 });

    await using node = await startNode();
    const samples = taskMethodKeys.map((key) => [methodName(key), sampleBytes(key, 'samples#a').toString('base64')]);
    const given = JSON.stringify(Object.fromEntries(samples));
    const used = await runProcess(program, [script, stubs.path, node.endpoint, given]);
    expect(used.stderr).toBe('');
    expect(used.code).toBe(0);
    const every = Object.values(TaskMasterServiceService).map(({ path }) => path);
    expect(JSON.parse(used.stdout)).toEqual(every.sort());
  });
});

describe.skipIf(python.kind === 'missing')(`the client of Python${skipped}`, () => {
  const home = join(root, 'clients', 'python');
  const run = (...args: string[]) =>
    runProcess(python.kind === 'ready' ? python.path : '', args, {
      cwd: root,
      env: { ...process.env, PYTHONPATH: home },
    });
  let node: RunningNode;
  beforeAll(async () => {
    if (python.kind === 'ready') node = await startNode();
  });
  afterAll(async () => {
    await node?.[Symbol.asyncDispose]();
  });

  test('has messages that are up to date, and repeats the calls that the table of methods allows', async () => {
    expect(await run(join(home, 'generate.py'), '--check')).toMatchObject({ code: 0, stderr: '' });
    const table = 'import json, taskmaster.calls as c; print(json.dumps(c.REPETITION))';
    const repeated = taskMethodKeys.filter((key) => methods[key].repetition !== 'unsafe');
    const expected = Object.fromEntries(repeated.map((key) => [methodName(key), methods[key].repetition]));
    expect(JSON.parse((await run('-c', table)).stdout)).toEqual(expected);
  });

  test.each([
    ['in threads', []],
    ['with asyncio', ['--asyncio']],
  ])('plays the scenarios %s', { timeout: 120_000 }, async (_, flags) => {
    const scenarios = join(root, 'test', 'conformance');
    const played = await run('-m', 'taskmaster.conformance', node.endpoint, scenarios, ...flags);
    const files = (await readdir(scenarios)).filter((name) => name.endsWith('.txt')).sort();
    expect(played.stdout.split('\n')).toEqual([...files.map((name) => `ok ${name}`), '']);
    expect(played).toMatchObject({ code: 0, stderr: '' });
  });

  test('waits for cancellations in a bounded number of groups, and in further ones when there is room', async () => {
    const program = `
import time
from taskmaster.leases import Keeper, Lease, _Kept
from taskmaster.v1 import tasks_pb2
leases = [Lease(tasks_pb2.LeasedTask(queue=f"g{i}#q", pid=b"x"), 30, 0, 0) for i in range(600)]
keeper = Keeper(None)
keeper._kept = {lease: _Kept(lease, float("inf")) for lease in leases}
def watched():
    keeper._look_at = 0
    keeper._look(time.monotonic() + 1)
    return [len(keeper._watches), sum(kept.watch is not None for kept in keeper._kept.values())]
print(watched())
for lease in leases[:200]: keeper.forget(lease)
print(watched())`;
    expect(await run('-c', program)).toMatchObject({ code: 0, stderr: '', stdout: '[500, 500]\n[400, 400]\n' });
  });

  test('fails the attempt of a handler that exits, and refuses what cannot work', async () => {
    const program = `
import sys, taskmaster
with taskmaster.Client("${node.endpoint}") as client:
    client.enqueue("py#exits", {"secret": 1}, pid="17", retry=taskmaster.retry_policy(max_attempts=1))
    said = []
    with taskmaster.Worker(client, "py#exits", lambda task: sys.exit(3), on_error=lambda error, task: said.append((error, task))):
        print(client.wait("py#exits", "17", timeout=10).outcome)
    print(said)
    async def handle(task): pass
    for wrong in (
        lambda: taskmaster.Worker(client, "py#exits", None),
        lambda: taskmaster.Worker(client, "py#exits", handle),
        lambda: taskmaster.AsyncWorker(client, "py#exits", handle),
        lambda: client.enqueue("py#exits", 1, delay="5s"),
        lambda: client.enqueue("py#exits", 1, headers={"a": 1}),
    ):
        try:
            wrong()
        except TypeError as error:
            print(error)`;
    const { code, stdout, stderr } = await run('-c', program);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.split('\n')).toEqual([
      'dead-lettered',
      "[(SystemExit(3), LeasedTask(queue='py#exits', pid=b'17', attempt=1, lease_token=2))]",
      'handler: must be a function of a task',
      'a Worker has a Client and a function; AsyncWorker is for an AsyncClient and an async function',
      'an AsyncWorker has an AsyncClient and an async function; Worker is for a Client and a function',
      "a time is a number of seconds, not '5s'",
      'headers: keys and values must be text',
      '',
    ]);
  });

  test('does what its README shows', async () => {
    const readme = await readFile(join(home, 'README.md'), 'utf8');
    const blocks = [...readme.matchAll(/```python\n(.*?)```/gs)].map(([, block = '']) => block);
    const program = blocks.join('\n').replaceAll('127.0.0.1:7400', node.endpoint);
    const { code, stdout, stderr } = await run('-c', program);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const said = ["{'sent': 'ann@example.com'}", "{'pages': 3}", 'completed', "TASK_EXISTS b'17' False"];
    expect(stdout.split('\n')).toEqual([...said, '']);
  });
});
