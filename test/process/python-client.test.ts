import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
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

  test('that the guide shows sends a mail', { timeout: 120_000 }, async () => {
    const guide = await readFile(join(root, 'docs', 'guides', 'other-languages.md'), 'utf8');
    const [, generate = ''] = /```sh\n(python -m grpc_tools\.protoc .*?)```/s.exec(guide) ?? [];
    const [, source = ''] = /```python\n(.*?)```/s.exec(guide) ?? [];
    await using stubs = await temporaryDirectory();
    await mkdir(stubs.path, { recursive: true });
    const env = { ...process.env, PATH: `${dirname(program)}${delimiter}${process.env.PATH}` };
    const into = generate.replaceAll('_out=.', `_out=${stubs.path}`);
    const generated = await runProcess('sh', ['-c', into], { cwd: root, env });
    expect(generated).toMatchObject({ code: 0 });

    await using node = await startNode();
    const mail = join(stubs.path, 'mail.py');
    await writeFile(mail, source.replace('127.0.0.1:7400', node.endpoint));
    const sent = await runProcess(program, [mail], { cwd: stubs.path });
    expect(sent).toMatchObject({ code: 0, stdout: `sending b'{"to":"ann@example.com"}'\n` });

    // The other blocks, with the tasks that they name. Their imports and the service are those of the first one.
    const titles = ['Wait for tasks', 'Cancel and reschedule', 'Why a call was refused'];
    const blocks = titles.map((title) => guide.split(`## ${title}`)[1]?.match(/```python\n(.*?)```/s)?.[1] ?? '');
    expect(blocks).not.toContain('');
    const [waiting, cancelling, refused] = blocks;
    const task = (of: string): string => `tasks_pb2.Enqueue(queue="shop#mail", delay_ms=60_000, ${of})`;
    const all = [
      source.split('service.UpdateTasks')[0],
      waiting,
      `tasks = [${task('key="welcome-17"')}, ${task('pid=b"reminder-17"')}]`,
      'service.UpdateTasks(tasks_pb2.UpdateTasksRequest(enqueue=tasks))',
      cancelling,
      refused,
      'try:',
      `    ${cancelling?.trim().replaceAll('\n', '\n    ')}`,
      'except grpc.RpcError as error:',
      '    print(reason_of(error))',
    ];
    const rest = join(stubs.path, 'rest.py');
    await writeFile(rest, all.join('\n').replace('127.0.0.1:7400', node.endpoint));
    const done = await runProcess(program, [rest], { cwd: stubs.path });
    expect(done).toMatchObject({ code: 0, stdout: "b'17' TASK_OUTCOME_UNKNOWN b''\nTASK_NOT_FOUND\n" });
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
