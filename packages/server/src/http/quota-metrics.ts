import type { Access } from '../access/access.ts';
import { type PrincipalQuota, type PrincipalUsage, principalQuotas } from '../access/principal-usage.ts';
import type { RpcMetrics } from './rpc-metrics.ts';

interface Limited {
  readonly usage: PrincipalUsage;
  readonly quota: PrincipalQuota;
  readonly limit: number;
}

/** Adds the metrics of the quotas of principals. Undefined rules: there are none. */
export function addPrincipalQuotaMetrics(metrics: RpcMetrics, access: () => Access | undefined): void {
  const labels = ['principal', 'quota'] as const;
  function* limited(): Generator<Limited> {
    for (const usage of access()?.usages.limited() ?? []) {
      for (const quota of principalQuotas) {
        const limit = usage.limits[quota];
        if (limit !== undefined) yield { usage, quota, limit };
      }
    }
  }
  const add = (name: string, help: string, of: (limited: Limited) => number): void =>
    metrics.gauge(name, help, labels, (gauge) => {
      gauge.reset();
      for (const one of limited()) gauge.labels(one.usage.principal, one.quota).set(of(one));
    });
  add('principal_quota', 'Quota of a principal at this program.', ({ limit }) => limit);
  add('principal_quota_used', 'What a principal uses of its quota at this program.', ({ usage, quota }) =>
    usage.used(quota),
  );
  metrics.labelledCounter(
    'principal_quota_refusals_total',
    'Calls and connections that were refused because a principal had reached its quota.',
    labels,
    async () =>
      Array.from(limited(), ({ usage, quota }) => ({
        labels: { principal: usage.principal, quota },
        count: usage.refused(quota),
      })),
  );
}
