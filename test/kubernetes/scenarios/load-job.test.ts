import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { clientCli } from '../../support/paths.ts';
import { runProcess } from '../../support/processes/child-process.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { ChartCluster, NAME } from './support/chart-cluster.ts';
import { skipped, whyNoKubernetes } from './support/requirements.ts';

const problem = await whyNoKubernetes();
const PODS = 4;
const LOAD = '--selector=app.kubernetes.io/component=load';
/** Deletes what is left of loads, as docs/operate/kubernetes.md shows. */
const CLEAN =
  'taskmaster queues --regex "^load-" --json | cut -d "\\"" -f 4 | while read -r queue; do taskmaster delete-queue "$queue" --yes; done';

describe.skipIf(problem !== undefined)(`the load Job of the chart${skipped(problem)}`, () => {
  let cluster: ChartCluster;

  beforeAll(async () => {
    cluster = await ChartCluster.start();
    await cluster.install();
    await cluster.rolledOut();
  });
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    expect(cluster?.kubelet.problems).toEqual([]);
  });

  /** Starts the next Job. Returns its name. */
  async function startLoad(duration: string): Promise<string> {
    const values = [`load.instances=${PODS}`, `load.duration=${duration}`, 'load.args={--rate,200,--groups,4}'];
    await cluster.upgrade('--set=load.enabled=true', ...values.map((value) => `--set=${value}`));
    return cluster.kubectl('get', 'jobs', LOAD, '--output=jsonpath={.items[-1:].metadata.name}');
  }

  async function podsOf(job: string): Promise<string[]> {
    const names = '--output=jsonpath={.items[*].metadata.name}';
    const found = await cluster.kubectl('get', 'pods', `--selector=batch.kubernetes.io/job-name=${job}`, names);
    return found.split(' ').filter((name) => name !== '');
  }

  const ended = (job: string, condition: 'Complete' | 'Failed'): Promise<string> =>
    cluster.kubectl('wait', `--for=condition=${condition}`, `job/${job}`, '--timeout=180s');

  const leftQueues = (): Promise<string> =>
    cluster.kubelet.exec(`${NAME}-0`, ['taskmaster', 'queues', '--regex', '^load-', '--json']);

  /** Joins the reports in the logs of the pods. */
  async function joinedReport(job: string): Promise<unknown> {
    await using directory = await temporaryDirectory();
    const files: string[] = [];
    for (const pod of await podsOf(job)) {
      const file = join(directory.path, `${pod}.json`);
      await writeFile(file, cluster.kubelet.outputOf(pod).trim().split('\n').at(-1) ?? '');
      files.push(file);
    }
    const args = [clientCli, 'load-report', ...files, '--json'];
    const { code, stdout, stderr } = await runProcess(process.execPath, args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return JSON.parse(stdout);
  }

  test('starts its pods together, checks every task, and leaves reports that can be joined', async () => {
    const job = await startLoad('10s');
    await ended(job, 'Complete');
    expect(await joinedReport(job)).toMatchObject({
      isComplete: true,
      instances: [0, 1, 2, 3],
      verification: { kind: 'kept' },
    });
    expect(await leftQueues()).toBe('');
  });

  test('fails when a pod is killed. The next Job runs, and what is left can be deleted', async () => {
    const job = await startLoad('1h');
    await eventually(async () => expect((await leftQueues()).split('\n').length).toBeGreaterThan(PODS), {
      withinMs: 120_000,
      everyMs: 500,
    });
    const [killed = '', ...others] = await podsOf(job);
    await cluster.kubelet.kill(killed);
    const begun = performance.now();
    await ended(job, 'Failed');
    // The others check, clean up and end long before they would be killed.
    await eventually(async () => expect(await podsOf(job)).not.toEqual(expect.arrayContaining([others[0]])), {
      withinMs: 25_000,
      everyMs: 500,
    });
    console.log(
      `from the kill of a pod to the end of the others: ${((performance.now() - begun) / 1000).toFixed(1)} s`,
    );
    expect(await leftQueues()).not.toBe('');
    const next = await startLoad('5s');
    await ended(next, 'Complete');
    expect(await joinedReport(next)).toMatchObject({ isComplete: true, verification: { kind: 'kept' } });
    expect(await leftQueues()).not.toBe('');
    await cluster.kubelet.exec(`${NAME}-0`, ['sh', '-c', CLEAN]);
    expect(await leftQueues()).toBe('');
  });
});
