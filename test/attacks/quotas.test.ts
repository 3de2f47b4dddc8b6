import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ConnectOptions, connect, type TaskMasterClient } from '@taskmaster/client';
import { hashOfToken } from '@taskmaster/proto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { type Latencies, latenciesOf, shownLatencies } from '../support/latencies.ts';
import { startProcess } from '../support/processes/child-process.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { startProxy } from '../support/processes/start-proxy.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/* One tenant at its quotas, and another one beside it. */

const LIMITS = { connections: 3, requestsPerSecond: 200, bytesInFlight: 262_144, waiters: 5 };
const GROUP_LIMITS = { tasks: 2_000, bytes: 1_048_576, queues: 3 };
/** How long the calls of the quiet tenant are measured, in ms. Figures that mean something need 4000, and a quiet machine. */
const MEASURED_MS = Number(process.env.TASKMASTER_MEASURED_MS ?? 300);
/**
 * For figures the other tenant has the lowest priority, because it has a machine of its own. On a busy machine it would not even
 * reach its quotas then.
 */
const NICENESS = process.env.TASKMASTER_MEASURED_MS === undefined ? 0 : 19;

const principal = (name: string, limits?: object) => ({
  name,
  tokens: [hashOfToken(`tm_${name}`)],
  ...(limits && { limits }),
  rights: [{ groups: [name], allow: ['enqueue', 'lease', 'read'] }],
});
const RULES = {
  principals: [
    principal('noisy', LIMITS),
    principal('busy', { ...LIMITS, requestsPerSecond: 20 }),
    principal('other', LIMITS),
    principal('quiet'),
  ],
  groups: [{ groups: ['noisy'], limits: GROUP_LIMITS }],
};

const opened = new AsyncDisposableStack();
let node: RunningNode;
let proxy: { readonly endpoint: string };
beforeAll(async () => {
  const directory = opened.use(await temporaryDirectory());
  const [accessFile, keyFile] = [join(directory.path, 'access.yaml'), join(directory.path, 'key')];
  writeFileSync(accessFile, JSON.stringify(RULES), { mode: 0o600 });
  writeFileSync(keyFile, 'a key for this test only', { mode: 0o600 });
  const flags = [`--access-file=${accessFile}`, `--cluster-key-file=${keyFile}`];
  node = opened.use(await startNode({ flags: ['--bootstrap', '--gossip-port=0', ...flags] }));
  proxy = opened.use(await startProxy([node.endpoint], flags));
});
afterAll(() => opened.disposeAsync());

const clientOf = (name: string, endpoint: string, more: Partial<ConnectOptions> = {}): Promise<TaskMasterClient> =>
  connect({ endpoints: endpoint, token: `tm_${name}`, ...more });

const latencies = (client: TaskMasterClient): Promise<Latencies> => {
  const queue = client.queue<number>('quiet#work');
  return latenciesOf((number) => queue.enqueue(number), MEASURED_MS);
};

async function metricsOf(httpPort: number): Promise<string> {
  return (await fetch(`http://127.0.0.1:${httpPort}/metrics`)).text();
}

describe('a tenant that asks for more than its quotas', () => {
  test.each([
    ['node', 'busy', 'busy-tenant.ts', ['requestsPerSecond']],
    ['proxy', 'busy', 'busy-tenant.ts', ['requestsPerSecond']],
    ['node', 'noisy', 'noisy-tenant.ts', ['requestsPerSecond', 'connections']],
  ])('is refused at a %s (%s), and another tenant is served', async (where, tenant, file, quotas) => {
    const endpoint = where === 'node' ? node.endpoint : proxy.endpoint;
    await using quiet = await clientOf('quiet', endpoint);
    await latencies(quiet);
    const alone = await latencies(quiet);
    const script = join(import.meta.dirname, 'tenants', file);
    const program = ['-n', String(NICENESS), process.execPath, script, endpoint, `tm_${tenant}`];
    await using other = await startProcess('nice', program);
    const outcomesOf = (): Record<string, number> => JSON.parse(other.stdout.trim().split('\n').at(-1) || '{}');
    const refused = Object.fromEntries(quotas.map((quota) => [quota, expect.any(Number)]));
    await eventually(() => expect(outcomesOf()).toMatchObject(refused));
    const before = outcomesOf();
    const beside = await latencies(quiet);
    // The tenant went on to ask and to be refused while the other one was measured. It tells its numbers now and then.
    await eventually(() => {
      for (const quota of quotas) expect(outcomesOf()[quota], quota).toBeGreaterThan(before[quota] ?? 0);
    });
    const outcomes = outcomesOf();
    console.log(
      `${tenant} at a ${where}: alone ${shownLatencies(alone)}; beside ${shownLatencies(beside)}; p99 ${(beside.p99 / alone.p99).toFixed(2)} ×; ${JSON.stringify(outcomes)}`,
    );
    expect(beside.calls).toBeGreaterThan(0);
  });

  test('may wait with so many calls only', async () => {
    await using client = await clientOf('other', node.endpoint, { timeout: '1s' });
    const ended = new AbortController();
    const { signal } = ended;
    const waits = Array.from({ length: LIMITS.waiters + 3 }, () =>
      client
        .queue('other#empty')
        .lease({ wait: '30s', signal })
        .then(
          () => 'served',
          (error: { readonly reason?: string; readonly metadata?: { readonly quota?: string } }) =>
            error.metadata?.quota ?? error.reason,
        ),
    );
    const first = await Promise.race(waits);
    expect(first).toBe('waiters');
    const text = await metricsOf(node.httpPort);
    expect(text).toContain(`taskmaster_principal_quota{principal="other",quota="waiters"} ${LIMITS.waiters}`);
    expect(text).toContain(`taskmaster_principal_quota_used{principal="other",quota="waiters"} ${LIMITS.waiters}`);
    expect(text).toMatch(/taskmaster_principal_quota_refusals_total\{principal="other",quota="waiters"\} [1-9]/);
    ended.abort();
    await Promise.all(waits);
  });

  test('fills its group up to a quota, which the metrics show', async () => {
    const text = await metricsOf(node.httpPort);
    expect(text).toContain(`taskmaster_group_quota{group="noisy",quota="tasks"} ${GROUP_LIMITS.tasks}`);
    const [, used = ''] = /taskmaster_group_quota_used\{group="noisy",quota="bytes"\} (\d+)/.exec(text) ?? [];
    expect(Number(used)).toBeGreaterThan(0);
    expect(Number(used)).toBeLessThanOrEqual(GROUP_LIMITS.bytes);
  });
});
