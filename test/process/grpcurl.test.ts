import { describe, expect, test } from 'vitest';
import { runProcess } from '../support/processes/child-process.ts';
import { startNode } from '../support/processes/start-node.ts';
import { grpcurl } from './foreign-tools.ts';

const tool = await grpcurl();
const skipped = tool.kind === 'missing' ? ` (skipped: ${tool.reason})` : '';
const SERVICE = 'taskmaster.v1.TaskMasterService';

describe.skipIf(tool.kind === 'missing')(`grpcurl${skipped}`, () => {
  test('lists, describes and calls the service, given only the address', { timeout: 60_000 }, async () => {
    await using node = await startNode();
    const run = async (before: readonly string[], after: readonly string[] = []): Promise<string> => {
      const args = ['-plaintext', '-max-time', '20', ...before, node.endpoint, ...after];
      const { code, stdout, stderr } = await runProcess(tool.kind === 'ready' ? tool.path : '', args);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return stdout;
    };
    const call = async (method: string, request: object): Promise<unknown> =>
      JSON.parse(await run(['-d', JSON.stringify(request)], [`${SERVICE}/${method}`]));

    expect((await run([], ['list'])).split('\n')).toEqual(expect.arrayContaining([SERVICE, 'grpc.health.v1.Health']));
    expect(await run([], ['describe', `${SERVICE}.LeaseTasks`])).toContain('.taskmaster.v1.LeaseTasksRequest');
    const health = JSON.parse(await run(['-d', JSON.stringify({ service: SERVICE })], ['grpc.health.v1.Health/Check']));
    expect(health).toEqual({ status: 'SERVING' });

    const data = Buffer.from('hello').toString('base64');
    const enqueue = { enqueue: [{ queue: 'shop#mail', pid: 'AAE=', data, retry: { max_attempts: 3 } }] };
    expect(await call('UpdateTasks', enqueue)).toEqual({
      enqueued: [{ pid: 'AAE=', result: 'ENQUEUE_RESULT_CREATED' }],
    });
    const lease = { queues: ['shop#mail'], max_tasks: 1, lease_duration_ms: 30_000 };
    expect(await call('LeaseTasks', lease)).toMatchObject({
      tasks: [{ queue: 'shop#mail', pid: 'AAE=', data, attempt: 1 }],
    });
    expect(await call('GetQueueStats', {})).toMatchObject({ queues: [{ queue: 'shop#mail', leased: '1' }] });
  });

  test('shows the reason of a refusal', { timeout: 60_000 }, async () => {
    await using node = await startNode();
    const args = [
      '-plaintext',
      '-d',
      JSON.stringify({ queues: [''], max_tasks: 1, lease_duration_ms: 1 }),
      node.endpoint,
    ];
    const refused = await runProcess(tool.kind === 'ready' ? tool.path : '', [...args, `${SERVICE}/LeaseTasks`]);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('InvalidArgument');
    expect(refused.stderr).toContain('"reason": "INVALID_QUEUE"');
  });
});
