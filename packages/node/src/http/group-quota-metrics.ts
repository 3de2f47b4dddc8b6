import type { LimitedGroup } from '@taskmaster/engine';
import { groupQuotas } from '@taskmaster/engine/domain';
import type { RpcMetrics } from '@taskmaster/server/http';

/** How long the figures are reused, in ms: the two metrics are read one after the other. */
const REUSE_MS = 1_000;

/**
 * Adds the metrics of the groups here that have quotas. `most`: groups with series of their own. Names of groups are data of
 * users, so those that are closest to a quota are shown.
 */
export function addGroupQuotaMetrics(metrics: RpcMetrics, groups: () => Iterable<LimitedGroup>, most: number): void {
  let last: { readonly at: number; readonly shown: readonly LimitedGroup[] } | undefined;
  const shown = (): readonly LimitedGroup[] => {
    const at = performance.now();
    if (last === undefined || at - last.at > REUSE_MS) last = { at, shown: closestToQuota(groups(), most) };
    return last.shown;
  };
  const add = (name: string, help: string, of: (group: LimitedGroup, quota: GroupQuota) => number): void =>
    metrics.gauge(name, help, ['group', 'quota'], (gauge) => {
      gauge.reset();
      for (const group of shown()) {
        for (const quota of groupQuotas) {
          if (group.limits[quota] !== undefined) gauge.labels(group.group, quota).set(of(group, quota));
        }
      }
    });
  add('group_quota', 'Quota of a group. The group without a name is "".', ({ limits }, quota) => limits[quota] ?? 0);
  add('group_quota_used', 'What a group uses of its quota.', ({ usage }, quota) => usage[quota]);
}

type GroupQuota = (typeof groupQuotas)[number];

/** Sorts now and then only, because there may be 100,000 groups. */
function closestToQuota(groups: Iterable<LimitedGroup>, most: number): LimitedGroup[] {
  let closest: { readonly group: LimitedGroup; readonly share: number }[] = [];
  const shorten = (): void => {
    closest = closest.sort((a, b) => b.share - a.share).slice(0, most);
  };
  for (const group of groups) {
    closest.push({ group, share: shareOf(group) });
    if (closest.length >= 2 * most + 1_000) shorten();
  }
  shorten();
  return closest.map(({ group }) => group);
}

/** The largest part of a quota that the group uses. */
function shareOf({ limits, usage }: LimitedGroup): number {
  let share = 0;
  for (const quota of groupQuotas) share = Math.max(share, usage[quota] / (limits[quota] ?? Number.POSITIVE_INFINITY));
  return share;
}
