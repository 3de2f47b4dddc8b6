import { type PublishedTask, pidText, type Subscription } from '@taskmaster/client';
import { duration } from '../../views/format.ts';
import type { Column } from '../../views/table.ts';
import { filterText } from './filter-option.ts';

export const subscriptionColumns = (now: number): readonly Column<Subscription>[] => [
  { title: 'TOPIC', cell: ({ topic }) => topic },
  { title: 'QUEUE', cell: ({ queue }) => queue },
  { title: 'FILTER', cell: ({ filter }) => filterText(filter) },
  {
    title: 'ENDS IN',
    align: 'right',
    cell: ({ expiresAt }) => (expiresAt === undefined ? 'never' : duration(expiresAt.getTime() - now)),
  },
  { title: 'THEN', cell: ({ deleteQueue }) => (deleteQueue ? 'queue deleted' : '') },
];

/** A subscription for programs. What does not apply is left out. */
export const subscriptionObject = ({ filter, expiresAt, ...rest }: Subscription): object => ({
  ...rest,
  filter: Object.keys(filter).length === 0 ? undefined : filter,
  expiresAt: expiresAt?.toISOString(),
});

/** A published task for programs. */
export const publishedObject = ({ queue, pid, result, leased }: PublishedTask): object => ({
  queue,
  pid: pidText(pid),
  result,
  leased,
});
