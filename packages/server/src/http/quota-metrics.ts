import type { Access } from '../access/access.ts';
import { principalQuotas } from '../access/principal-usage.ts';
import type { RpcMetrics } from './rpc-metrics.ts';

/** Adds the metrics of the quotas of principals. Undefined rules: there are none. */
export function addPrincipalQuotaMetrics(metrics: RpcMetrics, access: () => Access | undefined): void {
  const labels = ['principal', 'quota'] as const;
  metrics.gauge('principal_quota', 'Quota of a principal at this program.', labels, (gauge) => {
    gauge.reset();
    for (const { principal, limits } of access()?.usages.limited() ?? []) {
      for (const quota of principalQuotas) {
        const limit = limits[quota];
        if (limit !== undefined) gauge.labels(principal, quota).set(limit);
      }
    }
  });
  metrics.gauge('principal_quota_used', 'What a principal uses of its quota at this program.', labels, (gauge) => {
    gauge.reset();
    for (const usage of access()?.usages.limited() ?? []) {
      for (const quota of principalQuotas) {
        if (usage.limits[quota] !== undefined) gauge.labels(usage.principal, quota).set(usage.used(quota));
      }
    }
  });
  metrics.labelledCounter(
    'principal_quota_refusals_total',
    'Calls and connections that were refused because a principal had reached its quota.',
    labels,
    async () =>
      [...(access()?.usages.limited() ?? [])].flatMap((usage) =>
        principalQuotas
          .filter((quota) => usage.limits[quota] !== undefined)
          .map((quota) => ({ labels: { principal: usage.principal, quota }, count: usage.refused(quota) })),
      ),
  );
}
