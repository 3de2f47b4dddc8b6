import { join } from 'node:path';
import { chart } from './schema.ts';

/** Values with which the chart is tested. */
export const valueSets: readonly (readonly [what: string, values: readonly string[]])[] = [
  ['its defaults', []],
  ...['try', 'small', 'large', 'postgres'].map(
    (size) => [`the size ${size}`, [`--values=${join(chart, 'sizes', size)}.yaml`]] as const,
  ),
  ['a database whose URL is in a Secret', ['--set=store.postgres.existingSecret=db-app,store.postgres.caSecret=db-ca']],
  ['backups on a volume', ['--set=backup.enabled=true']],
  ['backups in S3', ['--set=backup.enabled=true,backup.s3=s3://bucket/tm']],
  ['a load test', ['--set=load.enabled=true,load.args={--rate,2000}']],
  [
    'metrics with a credential',
    [
      '--set=metrics.serviceMonitor.enabled=true,metrics.needsCredential=true',
      '--set=metrics.serviceMonitor.prometheusNamespace=monitoring',
    ],
  ],
  ['metrics', ['--set=metrics.serviceMonitor.enabled=true,metrics.alerts.enabled=true,metrics.dashboard.enabled=true']],
  ['neither TLS nor rules', ['--set=tls.enabled=false,auth.enabled=false,load.enabled=true,backup.enabled=true']],
  ['TLS without rules', ['--set=auth.enabled=false,metrics.serviceMonitor.enabled=true']],
  [
    'rules of its own',
    ['--set=auth.principals[0].name=billing,auth.groups[0].groups={billing-*},auth.groups[0].limits.tasks=1000'],
  ],
  ['TLS and rules with Secrets of its own', ['--set=tls.existingSecret=certificate,auth.existingSecret=rules']],
  ['autoscaled proxies', ['--set=proxy.autoscaling.enabled=true']],
  [
    'no proxies and no key',
    ['--set=proxy.enabled=false,clusterKey.enabled=false,auth.enabled=false,networkPolicy.enabled=false'],
  ],
  ['settings of its own', ['--set=node.config.engine.cacheBytes=64MiB,proxy.config.logLevel=debug']],
  ['a digest and a registry', [`--set=image.registry=registry.example,image.digest=sha256:${'a'.repeat(64)}`]],
];
