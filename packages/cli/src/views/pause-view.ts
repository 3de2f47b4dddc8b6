import type { PauseInfo } from '@taskmaster/client';
import { duration } from './format.ts';
import type { Column } from './table.ts';

/** A pause for programs. What is not set is left out. */
export const pauseObject = ({ queues, reason, by, since, until }: PauseInfo): object => ({
  queues,
  reason,
  by,
  since: since.toISOString(),
  until: until?.toISOString(),
});

/** `for 5m12s by ann, ends in 3h05m: reason`. */
export function pauseText({ reason, by, since, until }: PauseInfo, now: number): string {
  const end = until === undefined ? '' : `, ${endText(until, now)}`;
  return `for ${duration(now - since.getTime())} by ${by}${end}${reason === undefined ? '' : `: ${reason}`}`;
}

const endText = (until: Date, now: number): string => `ends in ${duration(until.getTime() - now)}`;

export const pauseColumns = (now: number): readonly Column<PauseInfo>[] => [
  { title: 'QUEUES', cell: ({ queues }) => queues },
  { title: 'PAUSED', cell: ({ since }) => `for ${duration(now - since.getTime())}` },
  { title: 'BY', cell: ({ by }) => by },
  { title: 'END', cell: ({ until }) => (until === undefined ? '-' : endText(until, now).replace('ends ', '')) },
  { title: 'REASON', cell: ({ reason }) => reason ?? '-' },
];
