import { durationMs, type LimitInfo } from '@taskmaster/client';
import { count, countOf, duration } from './format.ts';
import type { Column } from './table.ts';

/** A limit for programs. What is not set is left out. */
export const limitObject = ({
  queues,
  maxLeased,
  rate,
  by,
  since,
  leased,
  usedUpSince,
  keys,
  heldKeys,
  heldKeyCount,
  heldTasks,
}: LimitInfo): object => ({
  queues,
  keys,
  maxLeased,
  rate: rate && { tasks: rate.tasks, perMs: rate.per, burst: rate.burst },
  by,
  since: since.toISOString(),
  leased,
  usedUpSince: usedUpSince?.toISOString(),
  heldKeys: keys && heldKeys.map((held) => ({ ...held, usedUpSince: held.usedUpSince.toISOString() })),
  heldKeyCount: keys && heldKeyCount,
  heldTasks: keys && heldTasks,
});

/** What is limited: `shop#*`, or `each customer/* of shop#*`. */
export const limitedText = ({ queues, keys }: LimitInfo): string =>
  keys === undefined ? queues : `each ${keys} of ${queues}`;

/** `5 of at most 5 leased, at most 100 in 1m`. */
export function limitText({ leased, maxLeased, rate, keys }: LimitInfo): string {
  const used = keys === undefined ? `${count(leased)} of ` : '';
  const slots = maxLeased === undefined ? [] : [`${used}at most ${count(maxLeased)} leased`];
  const tokens = rate === undefined ? [] : [`at most ${rateText(rate)}`];
  return [...slots, ...tokens].join(', ');
}

/** `for 5m12s by shop#*: 5 of at most 5 leased`. */
export const heldText = (limit: LimitInfo, now: number): string =>
  `${limit.usedUpSince === undefined ? '' : `${age(limit.usedUpSince, now)} `}by ${limitedText(limit)}: ${limitText(limit)}`;

export const limitColumns = (now: number): readonly Column<LimitInfo>[] => [
  { title: 'QUEUES', cell: limitedText },
  {
    title: 'MAX LEASED',
    align: 'right',
    cell: ({ maxLeased }) => (maxLeased === undefined ? '-' : count(maxLeased)),
  },
  { title: 'LEASED', align: 'right', cell: ({ leased }) => count(leased) },
  {
    title: 'RATE',
    cell: ({ rate }) => (rate === undefined ? '-' : `${rateText(rate)}, ${count(rate.burst)} at once`),
  },
  {
    title: 'USED UP',
    cell: ({ usedUpSince, heldKeys: [held], heldKeyCount, heldTasks }) => {
      if (usedUpSince === undefined) return '-';
      const others = heldKeyCount > 1 ? ` and ${count(heldKeyCount - 1)} others` : '';
      const keys = held === undefined ? '' : ` by ${held.key}${others}: ${countOf(heldTasks, 'task')}`;
      return `${age(usedUpSince, now)}${keys}`;
    },
  },
  { title: 'BY', cell: ({ by }) => by },
  { title: 'SINCE', cell: ({ since }) => age(since, now) },
];

const rateText = ({ tasks, per }: NonNullable<LimitInfo['rate']>): string =>
  `${count(tasks)} in ${duration(durationMs(per))}`;

const age = (since: Date, now: number): string => `for ${duration(now - since.getTime())}`;
