import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connect } from '@taskmaster/client';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { protoRoot } from '../support/paths.ts';
import { runProcess, startProcess } from '../support/processes/child-process.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { startProxy } from '../support/processes/start-proxy.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { pythonWithGrpc } from './foreign-tools.ts';

const python = await pythonWithGrpc();
const skipped = python.kind === 'missing' ? ` (skipped: ${python.reason})` : '';

describe.skipIf(python.kind === 'missing')(`an autoscaler in Python${skipped}`, () => {
  const program = python.kind === 'ready' ? python.path : '';
  const script = join(dirname(fileURLToPath(import.meta.url)), 'python', 'external_scaler.py');

  test('is told of work in a cluster, and of the stop of the proxy', { timeout: 120_000 }, async () => {
    await using stubs = await temporaryDirectory();
    await mkdir(stubs.path, { recursive: true });
    const out = [`--python_out=${stubs.path}`, `--grpc_python_out=${stubs.path}`];
    const source = 'externalscaler/externalscaler.proto';
    const compiled = await runProcess(program, ['-m', 'grpc_tools.protoc', `-I${protoRoot}`, ...out, source]);
    expect(compiled).toMatchObject({ code: 0 });

    await using cluster = await TestCluster.start({ nodes: 2 });
    await using proxy = await startProxy(cluster.endpoints);
    await eventually(async () => expect((await fetch(`http://${proxy.http}/readyz`)).status).toBe(200));
    await using client = await connect(proxy.endpoint);
    const mail = client.queue<string>('shop#mail');

    await using scaler = await startProcess(program, [script, stubs.path, proxy.endpoint]);
    const said: unknown[] = [];
    for await (const line of scaler.lines()) {
      said.push(JSON.parse(line));
      if (said.length === 1) {
        await mail.enqueueMany(['a', 'b', 'c'].map((data) => ({ data })));
        await mail.lease({ max: 1 });
      }
      if (said.length === 7) proxy.process.process.kill('SIGTERM');
    }
    const metricName = 'taskmaster-tasks';
    const spec = { metricSpecs: [{ metricName, targetSize: '3', targetSizeFloat: 2.5 }] };
    expect(said).toEqual([
      { active: false },
      { active: true },
      { result: true },
      spec,
      spec,
      { metricValues: [{ metricName, metricValue: '3', metricValueFloat: 3 }] },
      { refused: 'INVALID_ARGUMENT', text: expect.stringMatching(/^scalerMetadata.pattern /) },
      { ended: 'OK' },
    ]);
    expect(await scaler.ended).toMatchObject({ code: 0, stderr: '' });
    expect((await proxy.process.ended).code).toBe(0);
  });
});
