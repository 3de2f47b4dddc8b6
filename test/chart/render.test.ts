import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { nodeSettings } from '../../packages/node/src/cli/program.ts';
import { nodeMemorySpec } from '../../packages/node/src/memory.ts';
import { proxySettings } from '../../packages/proxy/src/config.ts';
import { proxyMemorySpec } from '../../packages/proxy/src/memory.ts';
import { parseAccessFile } from '../../packages/server/src/access/access-file.ts';
import { divideMemory, type MemorySpec } from '../../packages/server/src/program/memory/divide-memory.ts';
import { DOCUMENTS_PLACEHOLDER } from './dashboard/dashboard.ts';
import { type KubernetesObject, lint, render, whyNoHelm } from './helm.ts';
import { chart } from './schema.ts';
import { valueSets } from './value-sets.ts';

const skipped = whyNoHelm === undefined ? '' : ` (skipped: ${whyNoHelm})`;

const nameOf = ({ kind, metadata }: KubernetesObject): string => `${kind}/${metadata.name}`;

/** What the tests read of a StatefulSet. */
interface NodesSpec {
  readonly template: {
    readonly spec: {
      readonly terminationGracePeriodSeconds: number;
      readonly volumes: readonly { readonly name: string }[];
      readonly containers: readonly {
        readonly env: readonly { readonly name: string }[];
        readonly volumeMounts: readonly { readonly name: string }[];
        readonly readinessProbe: unknown;
      }[];
    };
  };
}

const ROOT_CERTIFICATE = 'sslrootcert=/etc/taskmaster/database/ca.crt';

/** A variable whose value is in a Secret. */
const fromSecret = (name: string, secret: string, key: string) => ({
  name,
  valueFrom: { secretKeyRef: { name: secret, key } },
});

describe.skipIf(whyNoHelm !== undefined)(`the chart, rendered by helm${skipped}`, () => {
  test.each(valueSets)('passes lint with %s', async (_what, values) => {
    const { code, output } = await lint(values);
    expect({ code, output }).toMatchObject({ code: 0 });
  });

  test.each(valueSets)(
    'with %s gives programs settings that they accept, and objects with names',
    async (_what, values) => {
      const { code, stderr, objects } = await render(values);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const configs = objects.filter(({ data }) => data?.['config.yaml'] !== undefined);
      expect(configs.length).toBe(objects.filter(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment').length);
      for (const { metadata, data } of configs) {
        const table = metadata.name.endsWith('-nodes') ? nodeSettings : proxySettings;
        expect(table.safeParse(parse(data?.['config.yaml'] ?? '')).error).toBeUndefined();
      }
      const names = objects.map(nameOf);
      expect(names.length).toBeGreaterThan(5);
      expect(names).toEqual([...new Set(names)]);
    },
  );

  test('gives a pod time for a drain, and keeps the volumes when it scales down', async () => {
    const { objects } = await render(['--set=node.drain.timeoutSeconds=100,node.persistence.whenDeleted=Delete']);
    const nodes = objects.find(({ kind }) => kind === 'StatefulSet');
    expect(nodes?.spec).toMatchObject({
      template: { spec: { terminationGracePeriodSeconds: 140 } },
      persistentVolumeClaimRetentionPolicy: { whenScaled: 'Retain', whenDeleted: 'Delete' },
    });
  });

  test('keeps what belongs to the volumes after an uninstall', async () => {
    const { objects } = await render(['--set=backup.enabled=true']);
    const kept = objects.filter(({ metadata }) => metadata.annotations?.['helm.sh/resource-policy'] === 'keep');
    expect(kept.map(nameOf).sort()).toEqual([
      'ConfigMap/tm-taskmaster-cluster',
      'PersistentVolumeClaim/tm-taskmaster-backup',
      'Secret/tm-taskmaster-access',
      'Secret/tm-taskmaster-key',
      'Secret/tm-taskmaster-tls',
    ]);
  });

  describe('with a database', () => {
    /** What `kubectl describe` and readers of ConfigMaps see of the nodes. */
    async function nodesWith(...values: readonly string[]) {
      const { code, stderr, objects } = await render(values.map((value) => `--set=store.postgres.${value}`));
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const set = objects.find(({ kind }) => kind === 'StatefulSet')?.spec as unknown as NodesSpec;
      const [container] = set.template.spec.containers;
      const config = (of: string) =>
        parse(
          objects.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === of)?.data?.['config.yaml'] ??
            '',
        );
      return { objects, set, container, config };
    }

    test('has neither volumes nor a record of the cluster, and drains and rolls out quickly', async () => {
      const { objects, set, container, config } = await nodesWith('url=postgres://taskmaster@db/queues');
      expect(set).not.toHaveProperty('volumeClaimTemplates');
      expect(set).not.toHaveProperty('persistentVolumeClaimRetentionPolicy');
      expect(container?.volumeMounts.map(({ name }) => name)).toEqual(['config', 'keys', 'tls', 'access', 'tmp']);
      expect(set.template.spec.volumes.map(({ name }) => name)).toEqual(['config', 'keys', 'tls', 'access', 'tmp']);
      expect(objects.map(nameOf)).not.toContain('ConfigMap/tm-taskmaster-cluster');
      expect(JSON.stringify(objects.find(({ kind }) => kind === 'Role'))).not.toContain('configmaps');
      expect(set.template.spec.terminationGracePeriodSeconds).toBe(100);
      const made = config('tm-taskmaster-nodes');
      expect(made).toMatchObject({
        store: { schema: 'taskmaster' },
        bootstrap: true,
        drainOnShutdown: 'scale-down',
        cluster: { drainTimeoutMs: 60_000 },
        kubernetes: { statefulSet: 'tm-taskmaster' },
      });
      expect(made).not.toHaveProperty('dataDir');
      expect(made).not.toHaveProperty('kubernetes.clusterConfigMap');
      expect(config('tm-taskmaster-proxy')).toMatchObject({ router: { holdTimeoutMs: 6_000 } });
      expect(container?.readinessProbe).toMatchObject({ httpGet: { path: '/readyz' } });
      expect(objects.map(nameOf)).toContain('PodDisruptionBudget/tm-taskmaster-node');
    });

    test('keeps a longer drain, and another hold of the proxies', async () => {
      const { objects } = await render([
        '--set=store.postgres.url=postgres://db/queues,node.drain.timeoutSeconds=300',
        '--set=proxy.config.router.holdTimeoutMs=9000',
      ]);
      const texts = objects.flatMap(({ data }) => data?.['config.yaml'] ?? []).map((text) => parse(text));
      expect(texts).toContainEqual(
        expect.objectContaining({ cluster: expect.objectContaining({ drainTimeoutMs: 300_000 }) }),
      );
      expect(texts).toContainEqual(expect.objectContaining({ router: { holdTimeoutMs: 9_000 } }));
    });

    test.each([
      ['without a password', ['url=postgres://taskmaster@db/queues'], [{ value: 'postgres://taskmaster@db/queues' }]],
      [
        'with a password in a Secret',
        ['url=postgres://taskmaster@db1:5432\\,db2:5432/queues', 'passwordSecret=db', 'passwordKey=pw'],
        [{ value: 'postgres://taskmaster@db1:5432,db2:5432/queues' }, fromSecret('PGPASSWORD', 'db', 'pw')],
      ],
      ['in a Secret', ['existingSecret=db', 'secretKey=uri'], [fromSecret('TASKMASTER_STORE', 'db', 'uri')]],
      [
        'in a Secret, with a CA',
        ['existingSecret=db', 'caSecret=db-ca'],
        [fromSecret('DATABASE_URL', 'db', 'url'), { value: `$(DATABASE_URL)?sslmode=verify-full&${ROOT_CERTIFICATE}` }],
      ],
      [
        'with a CA',
        ['url=postgres://db/queues', 'caSecret=db-ca'],
        [{ value: `postgres://db/queues?sslmode=verify-full&${ROOT_CERTIFICATE}` }],
      ],
      [
        'with a CA and options',
        ['url=postgres://db/queues?sslmode=verify-ca', 'caSecret=db-ca'],
        [{ value: `postgres://db/queues?sslmode=verify-ca&${ROOT_CERTIFICATE}` }],
      ],
    ])('gives nodes the URL in their environment: one %s', async (_what, values, variables) => {
      const { objects, set, container } = await nodesWith(...values);
      const own = container?.env.filter(({ name }) => /STORE|DATABASE|^PG/.test(name));
      expect(own).toEqual(variables.map((variable) => ({ name: 'TASKMASTER_STORE', ...variable })));
      const hasCa = values.some((value) => value.startsWith('caSecret'));
      const mount = { name: 'database', mountPath: '/etc/taskmaster/database', readOnly: true };
      expect(container?.volumeMounts.filter(({ name }) => name === 'database')).toEqual(hasCa ? [mount] : []);
      const volume = { name: 'database', secret: { secretName: 'db-ca', items: [{ key: 'ca.crt', path: 'ca.crt' }] } };
      expect(set.template.spec.volumes.filter(({ name }) => name === 'database')).toEqual(hasCa ? [volume] : []);
      // Only nodes reach the database.
      expect(objects.filter((object) => /postgres:|TASKMASTER_STORE/.test(JSON.stringify(object))).map(nameOf)).toEqual(
        ['StatefulSet/tm-taskmaster'],
      );
    });

    test.each([
      ['a URL and a Secret', ['url=postgres://db/q', 'existingSecret=db'], 'are two URLs: set one of them'],
      ['a URL of something else', ['url=mysql://db/q'], 'must be a URL such as postgres://'],
      ['a password in the URL', ['url=postgres://me:hunter2@db/q'], 'has a password, which everybody'],
      ['a password in its options', ['url=postgres://db/q?password=hunter2'], 'has a password, which everybody'],
      ['two passwords', ['existingSecret=db', 'passwordSecret=pw'], 'passwordSecret would be ignored: the URL in'],
      ['a password without a URL', ['passwordSecret=pw'], 'passwordSecret would be ignored: store.postgres.url is not'],
      ['a CA without a URL', ['caSecret=ca'], 'store.postgres.caSecret would be ignored'],
      ['a schema without a URL', ['schema=other'], 'store.postgres.schema would be ignored'],
      ['no schema', ['url=postgres://db/q', 'schema='], /schema/],
      ['an unknown value', ['urll=postgres://db/q'], /urll/],
    ])('refuses %s', async (_what, values, message) => {
      const { code, stderr } = await render(values.map((value) => `--set=store.postgres.${value}`));
      expect(code).toBe(1);
      expect(stderr).toMatch(message);
      expect(stderr).not.toContain('hunter2');
    });

    test.each(['size=20Gi', 'annotations.a=b'])('refuses a volume with %s', async (value) => {
      const { code, stderr } = await render([
        '--set=store.postgres.existingSecret=db',
        `--set=node.persistence.${value}`,
      ]);
      expect(code).toBe(1);
      expect(stderr).toMatch(/node\.persistence\.\w+ would be ignored: with store\.postgres nodes have no volumes/);
    });
  });

  test('makes a certificate with all names by which members and clients call, and gives its key only to members', async () => {
    const { objects } = await render(['--set=load.enabled=true,backup.enabled=true']);
    const secret = objects.find(({ metadata }) => metadata.name === 'tm-taskmaster-tls');
    const fileOf = (key: string): Buffer => Buffer.from(secret?.data?.[key] ?? '', 'base64');
    const certificate = new X509Certificate(fileOf('tls.crt'));
    expect(certificate.checkIssued(new X509Certificate(fileOf('ca.crt')))).toBe(true);
    expect(certificate.checkPrivateKey(createPrivateKey(fileOf('tls.key')))).toBe(true);
    for (const host of [
      'localhost',
      'tm-taskmaster',
      'tm-taskmaster.queues.svc',
      'tm-taskmaster.queues.svc.cluster.local',
      'tm-taskmaster-nodes',
      'tm-taskmaster-0.tm-taskmaster-nodes.queues.svc.cluster.local',
    ]) {
      expect(certificate.checkHost(host), host).toBeDefined();
    }
    expect(certificate.checkIP('127.0.0.1')).toBe('127.0.0.1');
    const config = objects.find(({ metadata, data }) => metadata.name.endsWith('-nodes') && data?.['config.yaml']);
    const { tls } = parse(config?.data?.['config.yaml'] ?? '') as { readonly tls: { readonly peerName: string } };
    expect(certificate.checkHost(tls.peerName)).toBeDefined();
    const mounting = objects.filter(({ kind, spec }) => {
      const text = JSON.stringify(spec ?? {});
      return kind !== 'Secret' && text.includes('tm-taskmaster-tls') && !text.includes('"key":"ca.crt"');
    });
    expect(mounting.map(({ kind }) => kind).sort()).toEqual(['Deployment', 'StatefulSet']);
  });

  test('makes rules with the token of an operator, which its pods use, and is not insecure then', async () => {
    const quota = 'auth.groups[0].groups={billing-*},auth.groups[0].limits.tasks=7';
    const { objects } = await render([
      `--set=load.enabled=true,backup.enabled=true,auth.principals[0].name=billing,${quota}`,
    ]);
    const secret = objects.find(({ metadata }) => metadata.name === 'tm-taskmaster-access');
    const fileOf = (key: string): string => Buffer.from(secret?.data?.[key] ?? '', 'base64').toString();
    const table = parseAccessFile(fileOf('access.yaml'));
    expect(table.ofToken(fileOf('token'))?.name).toBe('operator');
    expect(table.named('billing')?.has('read', 'q')).toBe(false);
    expect(table.limitsOfGroup('billing-eu')).toEqual({ tasks: 7 });
    for (const name of ['tm-taskmaster-nodes', 'tm-taskmaster-proxy']) {
      const config = objects.find(({ metadata, data }) => metadata.name === name && data?.['config.yaml']);
      const file = '/etc/taskmaster/access/access.yaml';
      expect(parse(config?.data?.['config.yaml'] ?? '')).toMatchObject({ insecure: false, access: { file } });
    }
    const operator = table.ofToken(fileOf('token'));
    expect([operator?.has('manage-cluster', undefined), operator?.has('back-up', undefined)]).toEqual([true, true]);
    const backup = table.ofToken(fileOf('backup-token'));
    expect(backup?.grants).toEqual([{ allow: ['back-up'] }]);
    expect(table.ofToken(fileOf('metrics-token'))?.grants).toEqual([]);
    const using = objects.filter(({ spec }) => JSON.stringify(spec ?? {}).includes('TASKMASTER_TOKEN'));
    const keysOf = ({ spec }: KubernetesObject) =>
      [...JSON.stringify(spec).matchAll(/"secretKeyRef":\{"name":"tm-taskmaster-access","key":"([^"]*)"/g)].map(
        ([, key]) => key,
      );
    for (const object of using) expect(keysOf(object)).toEqual([object.kind === 'CronJob' ? 'backup-token' : 'token']);
    expect(using.map(({ kind }) => kind).sort()).toEqual(['CronJob', 'Deployment', 'Job', 'Pod', 'StatefulSet']);
  });

  test('lets HTTP be asked under the names of its Services, and under those of the settings', async () => {
    const { objects } = await render(['--set=node.config.http.allowedHosts={queues.example}']);
    const config = objects.find(({ metadata, data }) => metadata.name.endsWith('-nodes') && data?.['config.yaml']);
    const service = 'tm-taskmaster-nodes';
    expect(parse(config?.data?.['config.yaml'] ?? '')).toMatchObject({
      http: {
        allowedHosts: [
          service,
          ...['', '.svc', '.svc.cluster.local'].map((end) => `${service}.queues${end}`),
          'queues.example',
        ],
      },
    });
  });

  test('lets a Prometheus in another namespace read metrics, with a credential', async () => {
    const { objects } = await render([
      '--set=metrics.needsCredential=true,metrics.serviceMonitor.enabled=true',
      '--set=metrics.serviceMonitor.prometheusNamespace=monitoring',
    ]);
    const monitor = objects.find(({ kind }) => kind === 'ServiceMonitor');
    expect(monitor?.spec).toMatchObject({
      endpoints: [
        {
          scheme: 'https',
          tlsConfig: { ca: { secret: { name: 'tm-taskmaster-tls', key: 'ca.crt' } } },
          authorization: { credentials: { name: 'tm-taskmaster-access', key: 'metrics-token' } },
        },
      ],
    });
    const configs = objects.filter(({ data }) => data?.['config.yaml'] !== undefined);
    expect(configs).toHaveLength(2);
    for (const { data } of configs)
      expect(parse(data?.['config.yaml'] ?? '')).toMatchObject({ access: { metrics: true } });
    const members = objects.find(({ metadata }) => metadata.name === 'tm-taskmaster-members');
    const namespaceSelector = { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } };
    expect(members?.spec).toMatchObject({
      ingress: [{}, { from: [{ podSelector: {} }, { namespaceSelector }], ports: [{ port: 7401, protocol: 'TCP' }] }],
    });
  });

  test('brings the dashboard of Grafana as it is, with links to the documents, only if it is asked to', async () => {
    const file = readFileSync(join(chart, 'files/grafana-dashboard.json'), 'utf8');
    const dashboardIn = async (...values: string[]) =>
      (await render(values)).objects.find(({ metadata }) => metadata.name === 'tm-taskmaster-dashboard');
    expect(await dashboardIn()).toBeUndefined();
    const enabled = await dashboardIn('--set=metrics.dashboard.enabled=true');
    expect(enabled).toMatchObject({ kind: 'ConfigMap', metadata: { labels: { grafana_dashboard: '1' } } });
    expect(JSON.parse(enabled?.data?.['taskmaster.json'] ?? '')).toEqual(JSON.parse(file));
    const wiki = 'https://docs.example/tm/';
    const linked = await dashboardIn(`--set=metrics.dashboard.enabled=true,metrics.alerts.runbookBaseUrl=${wiki}`);
    const { templating } = JSON.parse(linked?.data?.['taskmaster.json'] ?? '') as {
      readonly templating: { readonly list: readonly { readonly name: string }[] };
    };
    expect(templating.list.find(({ name }) => name === 'documents')).toMatchObject({ query: wiki });
    expect(file).toContain(DOCUMENTS_PLACEHOLDER);
  });

  test('has room for volumes, init containers and sidecars of its users', async () => {
    const more = (of: string) => [
      `--set=${of}.extraVolumes[0].name=ca,${of}.extraVolumes[0].configMap.name=my-ca`,
      `--set=${of}.extraVolumeMounts[0].name=ca,${of}.extraVolumeMounts[0].mountPath=/ca`,
    ];
    const containers = (of: string) => [
      `--set=${of}.initContainers[0].name=first,${of}.initContainers[0].image=x`,
      `--set=${of}.extraContainers[0].name=beside,${of}.extraContainers[0].image=y`,
    ];
    const values = [
      ...more('node'),
      ...more('proxy'),
      ...containers('node'),
      ...containers('proxy'),
      ...more('backup'),
    ];
    const { objects, stderr } = await render([...values, '--set=backup.enabled=true']);
    expect(stderr).toBe('');
    const added = {
      volumes: expect.arrayContaining([{ name: 'ca', configMap: { name: 'my-ca' } }]),
      containers: expect.arrayContaining([
        expect.objectContaining({ volumeMounts: expect.arrayContaining([{ name: 'ca', mountPath: '/ca' }]) }),
      ]),
    };
    for (const kind of ['StatefulSet', 'Deployment']) {
      const spec = objects.find((object) => object.kind === kind)?.spec?.template;
      expect(spec, kind).toMatchObject({ spec: { ...added, initContainers: [{ name: 'first', image: 'x' }] } });
      expect(JSON.stringify(spec)).toContain('{"image":"y","name":"beside"}');
    }
    const job = objects.find(({ kind }) => kind === 'CronJob');
    expect(job?.spec).toMatchObject({ jobTemplate: { spec: { template: { spec: added } } } });
  });

  test.each([
    ['node', nodeMemorySpec],
    ['proxy', proxyMemorySpec],
  ] as const)('refuses a memory limit with which a %s would not start', async (of, spec) => {
    const divided = divideMemory(
      spec as MemorySpec<string>,
      { memory: undefined, parts: {} },
      { bytes: 1, source: 'cgroup' },
    );
    const [, least = ''] = /needs at least (\d+)MiB/.exec(divided.kind === 'refused' ? divided.problem : '') ?? [];
    const limit = (memory: string) => render([`--set-string=${of}.resources.limits.memory=${memory}`]);
    for (const enough of [`${least}Mi`, '0.5Gi', '1T', `${Number(least) * 1024 * 1024}`]) {
      expect((await limit(enough)).stderr, enough).toBe('');
    }
    for (const little of [`${Number(least) - 1}Mi`, '100M', '1000000000m', '0.1Gi', '1000']) {
      const { code, stderr } = await limit(little);
      expect(code, little).toBe(1);
      expect(stderr).toContain(
        `${of}.resources.limits.memory is ${little}, which is too little: a ${of} needs at least ${least}Mi`,
      );
    }
  });

  test('restarts no pod when only the version of the chart changes', async () => {
    const { objects } = await render();
    const templates = objects
      .filter(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment')
      .map(({ spec }) => spec);
    expect(JSON.stringify(templates.map((spec) => spec?.template))).not.toContain('helm.sh/chart');
  });

  test.each([
    ['a misspelt value', ['--set=replicaCuont=3'], /replicaCuont/],
    ['zero replicas', ['--set=replicaCount=0'], /replicaCount/],
    ['replicas that are no number', ['--set-string=replicaCount=three'], /replicaCount/],
    ['a size that is no quantity', ['--set=node.persistence.size=ten'], /size/],
    ['an unknown pull policy', ['--set=image.pullPolicy=Sometimes'], /pullPolicy/],
    ['rules without TLS', ['--set=tls.enabled=false'], /auth\.enabled needs tls\.enabled/],
    ['a certificate at two places', ['--set=node.config.tls.certFile=/x'], /node\.config\.tls\.certFile is made by/],
    ['a database in the settings', ['--set=node.config.store.url=postgres://db/q'], /node\.config\.store\.url is made/],
    ['a setting that the chart makes', ['--set=node.config.dataDir=/x'], /node\.config\.dataDir is made by the chart/],
    ['one in a section', ['--set=proxy.config.cluster.keyFile=/x'], /proxy\.config\.cluster\.keyFile is made by/],
    [
      'more least proxies than most',
      ['--set=proxy.autoscaling.enabled=true,proxy.autoscaling.minReplicas=11'],
      /minReplicas must not be more/,
    ],
    [
      'principals beside a Secret of its own',
      ['--set=auth.existingSecret=rules,auth.principals[0].name=billing'],
      /auth\.principals would be ignored/,
    ],
    [
      'quotas beside a Secret of its own',
      ['--set=auth.existingSecret=rules,auth.groups[0].groups={a}'],
      /auth\.groups would be ignored/,
    ],
    [
      'principals without rules',
      ['--set=auth.enabled=false,auth.principals[0].name=billing'],
      /auth\.principals would be ignored: auth\.enabled is false/,
    ],
    ['a principal with a name of the chart', ['--set=auth.principals[0].name=backup-job'], /the chart makes this/],
    [
      'a credential of metrics without rules',
      ['--set=auth.enabled=false,metrics.needsCredential=true'],
      /metrics\.needsCredential would be ignored/,
    ],
    [
      'a claim beside a bucket',
      ['--set=backup.enabled=true,backup.s3=s3://b/x,backup.existingClaim=c'],
      /would be ignored: backup\.s3 is set/,
    ],
    ['a bucket without a scheme', ['--set=backup.s3=bucket/tm'], /s3/],
  ])('refuses %s', async (_what, values, message) => {
    const { code, stderr } = await render(values);
    expect(code).toBe(1);
    expect(stderr).toMatch(message);
  });

  test('refuses a name that is too long for DNS', async () => {
    const { code, stderr } = await render([], `t${'m'.repeat(41)}`);
    expect(code).toBe(1);
    expect(stderr).toContain('must be a DNS label of at most 40 characters');
  });
});
