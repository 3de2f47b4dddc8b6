import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TaskMasterServiceService } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { protoRoot } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';
import { startNode } from '../support/processes/start-node.ts';
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
    const sources = ['tasks', 'queues', 'stream', 'service'].map((name) => `taskmaster/v1/${name}.proto`);
    const out = [`--python_out=${stubs.path}`, `--grpc_python_out=${stubs.path}`];
    const compiled = await runProcess(program, ['-m', 'grpc_tools.protoc', `-I${protoRoot}`, ...out, ...sources]);
    expect(compiled).toMatchObject({ code: 0 });

    await using node = await startNode();
    const used = await runProcess(program, [script, stubs.path, node.endpoint]);
    expect(used.stderr).toBe('');
    expect(used.code).toBe(0);
    const every = Object.values(TaskMasterServiceService).map(({ path }) => path);
    expect(JSON.parse(used.stdout)).toEqual(every.sort());
  });
});
