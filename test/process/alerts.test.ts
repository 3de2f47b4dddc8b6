import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { root } from '../support/paths.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { skippedBecause, startPrometheus, whyNo } from '../support/prometheus.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const problem = whyNo('prometheus');

interface Alert {
  readonly state: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** A Prometheus that scrapes the targets every second, with the rules of the chart. */
async function startWithRules(dir: string, targets: readonly string[]) {
  const rules = await readFile(join(root, 'deploy/k8s/files/alerts.yaml'), 'utf8');
  // The same expressions, evaluated every second.
  const quick = rules.replace(/interval: \S+/, 'interval: 1s').replace(/\bfor: \S+/g, 'for: 2s');
  await writeFile(join(dir, 'alerts.yaml'), quick);
  const prometheus = await startPrometheus(dir, {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: ['alerts.yaml'],
    scrape_configs: [{ job_name: 'taskmaster', static_configs: [{ targets }] }],
  });
  return {
    /** The rules whose last evaluation failed, with the error; `unknown` before the first. */
    failedRules: async () => {
      const { groups } = (await prometheus.get('rules')) as {
        groups: readonly { rules: readonly { name: string; health: string; lastError?: string }[] }[];
      };
      return groups.flatMap((group) => group.rules).filter(({ health }) => health !== 'ok');
    },
    firing: async (): Promise<readonly Alert[]> => {
      const { alerts } = (await prometheus.get('alerts')) as { alerts: readonly Alert[] };
      return alerts.filter(({ state }) => state === 'firing');
    },
    /** The series of an expression now. */
    query: async (expression: string): Promise<readonly unknown[]> => {
      const { result } = (await prometheus.get(`query?query=${encodeURIComponent(expression)}`)) as {
        result: readonly unknown[];
      };
      return result;
    },
    [Symbol.asyncDispose]: () => prometheus[Symbol.asyncDispose](),
  };
}

test.skipIf(problem !== undefined)(
  `a real Prometheus tells of a dead member by its name, and of a dead cluster${skippedBecause(problem)}`,
  { timeout: 120_000 },
  async () => {
    await using dir = await temporaryDirectory();
    await using cluster = await TestCluster.start({ flags: ['--http-port=0'] });
    await cluster.inPlace();
    const targets = cluster.running.map(({ httpPort }) => `127.0.0.1:${httpPort}`);
    await using prometheus = await startWithRules(dir.path, targets);
    await eventually(async () => expect(await prometheus.failedRules()).toEqual([]));
    // All is well: the rules find every series that they need, and are silent over at least three evaluations in a row. A window
    // in which a busy machine has kept a scrape late shows nothing, so the next one counts.
    await eventually(async () => {
      expect(await prometheus.query('count_over_time(up[4s]) >= 3 and min_over_time(up[4s]) == 1')).toHaveLength(3);
      const fired = 'count_over_time(ALERTS{alertstate="firing",alertname!~"DiskNearlyFull|DiskFull"}[4s])';
      expect(await prometheus.query(fired)).toEqual([]);
    });

    const killedAt = performance.now();
    await cluster.node('b').kill();
    const down = await eventually(async () => {
      const found = (await prometheus.firing()).find(({ labels }) => labels.alertname === 'MemberDown');
      if (found === undefined) throw new Error('MemberDown does not fire');
      return found;
    });
    expect(down.labels).toMatchObject({ member: 'b', severity: 'critical' });
    expect(down.annotations.summary).toContain('Member b does not answer');
    console.log(`MemberDown fired ${Math.round(performance.now() - killedAt)} ms after the kill`);

    // Calls for its groups are refused, which the node that was asked counts.
    await using client = await connect({ endpoints: cluster.node('a').endpoint, retry: { maxAttempts: 1 } });
    const refused = async (): Promise<void> => {
      const groups = Array.from({ length: 20 }, (_, number) => client.queue(`g${number}#q`).enqueue(1));
      const outcomes = await Promise.allSettled(groups);
      expect(outcomes.some(({ status }) => status === 'rejected')).toBe(true);
    };
    await eventually(async () => {
      await refused();
      const names = (await prometheus.firing()).map(({ labels }) => labels.alertname);
      expect(names).toContain('HolderUnreachable');
    });

    for (const node of cluster.running) await node.kill();
    await eventually(async () => {
      const alerts = await prometheus.firing();
      const names = alerts.map(({ labels }) => labels.alertname);
      expect(names).toContain('ClusterDown');
      expect(names.filter((name) => name === 'TargetDown')).toHaveLength(3);
    });
  },
);
