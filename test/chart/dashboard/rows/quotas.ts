import { good, type Row } from '../panel.ts';
import { orNone, rate, series } from '../queries.ts';

/** Who uses how much of what. */
export const quotas: Row = {
  title: 'Quotas',
  collapsed: true,
  panels: [
    {
      title: 'Quotas of groups',
      description:
        'What groups use of their quotas, the fullest first. At 1, further tasks are refused with QUOTA_EXCEEDED. "none": no group has a quota.',
      shown: 'lines',
      unit: 'percentunit',
      queries: {
        '{{group}} {{quota}}': orNone(
          'group',
          `topk(10, max by (group, quota) (${series('group_quota_used', 'group=~"$group"')} / ${series('group_quota', 'group=~"$group"')}))`,
        ),
      },
      thresholds: good(['orange', 0.8], ['red', 1]),
    },
    {
      title: 'Quotas of principals',
      description:
        'What principals use of their quotas at one program, the fullest first. "none": no principal has a quota.',
      shown: 'lines',
      unit: 'percentunit',
      queries: {
        '{{principal}} {{quota}}': orNone(
          'principal',
          `topk(10, max by (principal, quota) (${series('principal_quota_used')} / ${series('principal_quota')}))`,
        ),
      },
      thresholds: good(['orange', 0.8], ['red', 1]),
    },
    {
      title: 'Refused for quotas of principals, per second',
      description: 'Calls and connections that were refused because a principal had reached its quota.',
      shown: 'lines',
      unit: 'reqps',
      queries: {
        '{{principal}} {{quota}}': orNone(
          'principal',
          `topk(10, sum by (principal, quota) (${rate(series('principal_quota_refusals_total'))}))`,
        ),
      },
    },
  ],
};
