import type { BulkPreview, BulkProgress } from '@taskmaster/client';
import { count, countOf, duration } from './format.ts';
import type { Column } from './table.ts';

/** A bulk run for programs. What is not set is left out. */
export const bulkObject = ({ startedAt, endedAt, ...run }: BulkProgress): object => ({
  ...run,
  startedAt: startedAt.toISOString(),
  endedAt: endedAt?.toISOString(),
});

/** `1,234 changed, 5 left (TASK_LEASED), 6,000 of 6,000 looked at`. */
export function progressText({ changed, skipped, lookedAt, tasks }: BulkProgress): string {
  const left = leftText(skipped);
  const looked = `${count(lookedAt)} of ${count(Math.max(tasks, lookedAt))} looked at`;
  return `${count(changed)} changed, ${left === '' ? '' : `${left}, `}${looked}`;
}

const leftText = (skipped: BulkProgress['skipped']): string =>
  Object.entries(skipped)
    .map(([reason, tasks]) => `${count(tasks)} left (${reason})`)
    .join(', ');

/** `1,234 of 6,000 tasks in 3 queues match, 5 of them leased`. */
export function previewText({ queues, tasks, matched, leased }: BulkPreview): string {
  const where = `${countOf(tasks, 'task')} in ${countOf(queues, 'queue')}`;
  const held = leased === 0 ? '' : `, ${count(leased)} of them leased`;
  return `${count(matched)} of ${where} match${held}`;
}

export const bulkColumns = (now: number): readonly Column<BulkProgress>[] => [
  { title: 'ID', cell: ({ id }) => id },
  { title: 'QUEUES', cell: ({ queues }) => queues },
  { title: 'ACTION', cell: ({ action }) => action },
  { title: 'STATE', cell: ({ state, problem }) => (problem === undefined ? state : `${state}: ${problem}`) },
  { title: 'CHANGED', align: 'right', cell: ({ changed }) => count(changed) },
  { title: 'LOOKED AT', align: 'right', cell: ({ lookedAt }) => count(lookedAt) },
  { title: 'LEFT', cell: ({ skipped }) => leftText(skipped) || '-' },
  { title: 'BY', cell: ({ by }) => by },
  { title: 'STARTED', cell: ({ startedAt }) => `${duration(now - startedAt.getTime())} ago` },
];
