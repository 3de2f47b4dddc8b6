import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect, type TaskMasterClient } from '@taskmaster/client';
import { noPostgres, PostgresServer } from '@taskmaster/postgres/testing';
import { hashOfToken } from '@taskmaster/proto';
import { certificateFiles, TestAuthority } from '@taskmaster/server/testing/certificates';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { filledIn, panelsInFile } from '../chart/dashboard/expressions.ts';
import { eventually } from '../support/eventually.ts';
import { clientCli, root } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';
import { TestCluster } from '../support/processes/start-cluster.ts';
import { startNode } from '../support/processes/start-node.ts';
import { startProxy } from '../support/processes/start-proxy.ts';
import { type RunningPrometheus, skippedBecause, startPrometheus, whyNo } from '../support/prometheus.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const problem = whyNo('prometheus');
const QUEUE = 'shop#mail';

interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [time: number, value: string];
}

/** The job of an example of a scrape configuration, with the files in `dir`. */
async function jobOf(example: string, dir: string): Promise<Readonly<Record<string, unknown>>> {
  const text = await readFile(join(root, 'deploy/examples', example), 'utf8');
  const { scrape_configs: jobs } = parse(text.replaceAll('/etc/prometheus/taskmaster', dir)) as {
    readonly scrape_configs: readonly [Readonly<Record<string, unknown>>];
  };
  return jobs[0];
}

/** What a pod of the chart tells Prometheus, at the address of the node. */
const asPod = (target: string) => ({
  targets: [target],
  labels: {
    __meta_kubernetes_namespace: 'queues',
    __meta_kubernetes_pod_name: 'tm-taskmaster-0',
    __meta_kubernetes_pod_phase: 'Running',
    __meta_kubernetes_pod_container_port_name: 'http',
    __meta_kubernetes_pod_label_app_kubernetes_io_name: 'taskmaster',
    __meta_kubernetes_pod_label_app_kubernetes_io_instance: 'tm',
    __meta_kubernetes_pod_label_app_kubernetes_io_component: 'node',
  },
});

/** One task is completed, one fails, and one waits. */
async function work(client: TaskMasterClient): Promise<void> {
  const queue = client.queue<number>(QUEUE);
  await Promise.all([queue.enqueue(1), queue.enqueue(2), queue.enqueue(3)]);
  const [done, failed] = await queue.lease({ max: 2 });
  await done?.complete();
  await failed?.release({ error: new Error('it failed') });
}

/** A queue that nobody works on, a paused one, a limited one, and a dead letter. */
async function trouble(client: TaskMasterClient): Promise<void> {
  const [idle, paused, limited, failing] = ['idle', 'paused', 'limited', 'failing'].map((name) =>
    client.queue<number>(`shop#${name}`),
  );
  await Promise.all([idle, paused, limited, limited, failing].map((queue) => queue?.enqueue(1)));
  await paused?.pause({ reason: 'maintenance' });
  await limited?.limit({ maxLeased: 1 });
  await limited?.lease({ leaseDuration: '10m' });
  const [failed] = (await failing?.lease()) ?? [];
  await failed?.deadLetter(new Error('it failed for the last time'));
}

/** What a query asks, without the 0 or the "none" that it shows where there is nothing. */
const asked = (expression: string): string => expression.replace(/ or (?:on \(\) label_replace\()?0 \* count\(.*$/, '');

/** Panels with queries that find nothing here: nobody is down, no keys are held, and tasks are unclaimed only after minutes. */
const NOTHING = ['Members down', 'Nodes not serving', 'Not scraped', 'Paused, limited and unclaimed, by queue'];

/** The expressions that find no number now. */
async function emptyQueries(prometheus: RunningPrometheus, expressions: readonly string[]): Promise<string[]> {
  const found = await Promise.all(
    expressions.map(async (expression) => {
      const { result } = (await prometheus.get(
        `query?query=${encodeURIComponent(filledIn(expression, '.*taskmaster.*', '10s'))}`,
      )) as { readonly result: readonly Sample[] };
      return result.some(({ value: [, value] }) => Number.isFinite(Number(value)));
    }),
  );
  return expressions.filter((_, index) => found[index] !== true);
}

test.skipIf(problem !== undefined)(
  `every query of the dashboard finds data in a real Prometheus${skippedBecause(problem)}${noPostgres === undefined ? '' : ` (without a shared database: ${noPostgres})`}`,
  { timeout: 240_000 },
  async () => {
    await using opened = new AsyncDisposableStack();
    const { path: dir } = opened.use(await temporaryDirectory());
    const job = await jobOf('prometheus.yaml', dir);
    const ofPods = await jobOf('prometheus-kubernetes.yaml', dir);
    const { server_name: name } = ofPods.tls_config as { readonly server_name: string };

    // A node as in a pod: with TLS, rules of access and quotas, on a shared database.
    const authority = await TestAuthority.create();
    const certificate = opened.use(
      await certificateFiles(await authority.sign({ name: 'node', dns: [name] }), authority.pem),
    );
    await copyFile(certificate.caFile, join(dir, 'ca.crt'));
    await writeFile(join(dir, 'metrics-token'), 'token-of-prometheus');
    const access = {
      principals: [
        {
          name: 'shop',
          tokens: [hashOfToken('token-of-shop')],
          rights: [{ groups: ['shop'], allow: ['enqueue', 'lease', 'read'] }],
          limits: { requestsPerSecond: 10_000 },
        },
        { name: 'prometheus', tokens: [hashOfToken('token-of-prometheus')], rights: [] },
      ],
      groups: [{ groups: ['shop'], limits: { tasks: 10_000 } }],
    };
    await writeFile(join(dir, 'access.yaml'), JSON.stringify(access), { mode: 0o600 });
    const database =
      noPostgres === undefined ? opened.use(await PostgresServer.start({ settings: ['fsync = off'] })) : undefined;
    const pod = opened.use(
      await startNode({
        flags: [
          ...(database === undefined ? [] : [`--store=${database.url()}`]),
          ...['--engine-partitions=8', '--access-metrics', `--access-file=${join(dir, 'access.yaml')}`],
          ...[`--tls-cert-file=${certificate.certFile}`, `--tls-key-file=${certificate.keyFile}`],
        ],
      }),
    );

    // A cluster in plain text with a proxy. The second node comes when Prometheus has seen the first, so that it sees hand-offs.
    const cluster = opened.use(await TestCluster.start({ nodes: 1 }));
    const proxy = opened.use(await startProxy(cluster.endpoints));
    const programs = (): string[] => [...cluster.running.map(({ httpPort }) => `127.0.0.1:${httpPort}`), proxy.http];
    const tellTargets = (): Promise<void> =>
      writeFile(join(dir, 'targets.json'), JSON.stringify([{ targets: programs() }]));
    await tellTargets();
    await copyFile(join(root, 'deploy/k8s/files/alerts.yaml'), join(dir, 'alerts.yaml'));
    const { static_configs: _, ...found } = job;
    const { kubernetes_sd_configs: __, ...podJob } = ofPods;
    const prometheus = opened.use(
      await startPrometheus(dir, {
        global: { scrape_interval: '1s', evaluation_interval: '1s' },
        rule_files: ['alerts.yaml'],
        scrape_configs: [
          { ...found, file_sd_configs: [{ files: ['targets.json'], refresh_interval: '1s' }] },
          { ...podJob, static_configs: [asPod(`127.0.0.1:${pod.httpPort}`)] },
        ],
      }),
    );
    const ups = async (): Promise<readonly Sample[]> =>
      ((await prometheus.get(`query?query=${encodeURIComponent('up == 1')}`)) as { result: readonly Sample[] }).result;
    await eventually(async () => expect(await ups()).toHaveLength(3));
    const labels = (await ups()).map(({ metric: { job, namespace, instance } }) => ({ job, namespace, instance }));
    expect(labels).toContainEqual({ job: 'taskmaster-tm', namespace: 'queues', instance: 'tm-taskmaster-0' });
    await cluster.add('b');
    await tellTargets();

    const queries = panelsInFile()
      .flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))
      .filter(({ expr }) => database !== undefined || !expr.includes('taskmaster_database_'));
    const expressions = queries.map(({ expr }) => expr);
    await using shop = await connect({
      endpoints: pod.endpoint,
      tls: { caFile: certificate.caFile },
      token: 'token-of-shop',
    });
    await using client = await connect(proxy.endpoint);
    await client.schedules.put('shop#often', { queue: 'shop#runs', data: 1, every: 200 });
    await cluster.inPlace();
    const backup = ['backup', 'create', '--to', join(dir, 'backup'), '--endpoint', proxy.endpoint];
    expect(await runProcess(process.execPath, [clientCli, ...backup])).toMatchObject({ code: 0 });
    await eventually(
      async () => {
        await Promise.all([work(shop), work(client)]);
        expect(await emptyQueries(prometheus, expressions)).toEqual([]);
      },
      { withinMs: 90_000, everyMs: 500 },
    );
    // A query that always falls back to 0 would look good, too.
    await trouble(client);
    await eventually(
      async () => {
        await Promise.all([work(shop), work(client)]);
        const empty = await emptyQueries(prometheus, expressions.map(asked));
        const titles = queries.filter(({ expr }) => empty.includes(asked(expr))).map(({ title }) => title);
        expect([...new Set(titles)].toSorted()).toEqual(NOTHING);
      },
      { withinMs: 60_000, everyMs: 500 },
    );
    console.log(`${expressions.length} queries of ${panelsInFile().length} panels find data`);
  },
);
