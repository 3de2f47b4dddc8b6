import type { LimitInfo } from '@taskmaster/client';
import { count, duration } from './format.ts';
import type { Column } from './table.ts';

/** A limit for programs. What is not set is left out. */
export const limitObject = ({ queues, maxLeased, by, since, leased, usedUpSince }: LimitInfo): object => ({
  queues,
  maxLeased,
  by,
  since: since.toISOString(),
  leased,
  usedUpSince: usedUpSince?.toISOString(),
});

/** `5 of at most 5 leased`. */
export const limitText = ({ leased, maxLeased }: LimitInfo): string =>
  `${count(leased)} of at most ${count(maxLeased)} leased`;

/** `for 5m12s by shop#*: 5 of at most 5 leased`. */
export const heldText = (limit: LimitInfo, now: number): string =>
  `${limit.usedUpSince === undefined ? '' : `for ${duration(now - limit.usedUpSince.getTime())} `}by ${limit.queues}: ${limitText(limit)}`;

export const limitColumns = (now: number): readonly Column<LimitInfo>[] => [
  { title: 'QUEUES', cell: ({ queues }) => queues },
  { title: 'MAX LEASED', align: 'right', cell: ({ maxLeased }) => count(maxLeased) },
  { title: 'LEASED', align: 'right', cell: ({ leased }) => count(leased) },
  {
    title: 'USED UP',
    cell: ({ usedUpSince }) => (usedUpSince === undefined ? '-' : `for ${duration(now - usedUpSince.getTime())}`),
  },
  { title: 'BY', cell: ({ by }) => by },
  { title: 'SINCE', cell: ({ since }) => `for ${duration(now - since.getTime())}` },
];
