import { groupQuotas } from '@taskmaster/server/domain';
import type { RpcMetrics } from '@taskmaster/server/http';
import type { LimitedGroup } from '../engine/queues/group-usage.ts';

/**
 * Adds the metrics of the groups here that have quotas. `most`: groups with series of their own. Names of groups are data of
 * users, so those that are closest to a quota are shown.
 */
export function addGroupQuotaMetrics(metrics: RpcMetrics, groups: () => readonly LimitedGroup[], most: number): void {
  const shown = (): LimitedGroup[] => [...groups()].sort((a, b) => shareOf(b) - shareOf(a)).slice(0, most);
  const labels = ['group', 'quota'] as const;
  metrics.gauge('group_quota', 'Quota of a group. The group without a name is "".', labels, (gauge) => {
    gauge.reset();
    for (const { group, limits } of shown()) {
      for (const quota of groupQuotas) {
        const limit = limits[quota];
        if (limit !== undefined) gauge.labels(group, quota).set(limit);
      }
    }
  });
  metrics.gauge('group_quota_used', 'What a group uses of its quota.', labels, (gauge) => {
    gauge.reset();
    for (const { group, limits, usage } of shown()) {
      for (const quota of groupQuotas) {
        if (limits[quota] !== undefined) gauge.labels(group, quota).set(usage[quota]);
      }
    }
  });
}

/** The largest part of a quota that the group uses. */
function shareOf({ limits, usage }: LimitedGroup): number {
  return Math.max(...groupQuotas.map((quota) => usage[quota] / (limits[quota] ?? Number.POSITIVE_INFINITY)));
}
