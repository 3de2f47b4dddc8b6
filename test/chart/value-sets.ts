import { join } from 'node:path';
import { chart } from './schema.ts';

/** Values with which the chart is tested. */
export const valueSets: readonly (readonly [what: string, values: readonly string[]])[] = [
  ['its defaults', []],
  ...['try', 'small', 'large'].map(
    (size) => [`the size ${size}`, [`--values=${join(chart, 'sizes', size)}.yaml`]] as const,
  ),
  ['backups on a volume', ['--set=backup.enabled=true']],
  ['backups in S3', ['--set=backup.enabled=true,backup.s3=s3://bucket/tm']],
  ['a load test', ['--set=load.enabled=true,load.args={--rate,2000}']],
  ['metrics', ['--set=metrics.serviceMonitor.enabled=true,metrics.alerts.enabled=true']],
  ['TLS', ['--set=tls.enabled=true,metrics.serviceMonitor.enabled=true,load.enabled=true,backup.enabled=true']],
  [
    'TLS and rules',
    ['--set=tls.enabled=true,auth.enabled=true,load.enabled=true,backup.enabled=true,auth.principals[0].name=billing'],
  ],
  ['TLS with a Secret of its own', ['--set=tls.enabled=true,tls.existingSecret=certificate']],
  ['autoscaled proxies', ['--set=proxy.autoscaling.enabled=true']],
  ['no proxies and no key', ['--set=proxy.enabled=false,clusterKey.enabled=false,networkPolicy.enabled=false']],
  ['settings of its own', ['--set=node.config.engine.cacheBytes=64MiB,proxy.config.logLevel=debug']],
  ['a digest and a registry', [`--set=image.registry=registry.example,image.digest=sha256:${'a'.repeat(64)}`]],
];
