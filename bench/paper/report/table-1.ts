import type { Point } from '../result.ts';
import type { RateSpread } from '../spread.ts';
import { at, figure, percent, type Section, times } from './section.ts';

/** Tasks per second and variance in percent. */
const PAPER: Readonly<Record<string, readonly [perS: number, variance: number]>> = {
  enqueue: [1_630, 13.6],
  'FIFO enqueue': [2_386, 8.7],
  'lease + dequeue': [1_485, 6.8],
};
const OPERATIONS = ['enqueue', 'enqueue, short queues', 'FIFO enqueue', 'lease + dequeue'];

export function tableOne(points: readonly Point[]): Section {
  const of = (via: string, operation: string) => at(points, `${via}: ${operation}`, 0);
  const perS = (via: string, operation: string): number => of(via, operation)?.tasksPerS.mean ?? Number.NaN;
  const cells = (via: string, operation: string): string[] => {
    const rate = of(via, operation)?.tasksPerS;
    return rate === undefined ? ['', ''] : [figure(rate.mean), variationOf(rate)];
  };
  const [fifo, enqueue] = [perS('unary', 'FIFO enqueue'), perS('unary', 'enqueue')];
  const ofPaper = (via: string, operation: string): string =>
    times(perS(via, operation) / (PAPER[operation]?.[0] ?? Number.NaN));
  return {
    heading: 'Table 1: single tasks a second',
    setUp:
      'The paper: 50 workers of 10 threads, one task a call, 1 KB, one node. Here the same, with a queue for each worker: ' +
      'once with a unary call a task, as in the paper, and once through the typed client, which joins the calls of a ' +
      'worker that are made at the same time. “Enqueue” chooses random PIDs and goes into queues that are not in the ' +
      'node’s memory, so that each PID is looked up in the store; into short queues, which the node knows whole, nothing ' +
      'is read. Variation is the standard deviation of the rate over intervals of 250 ms; the paper does not say over what ' +
      'its variance was taken.',
    charts: [],
    table: {
      columns: [
        'operation',
        'paper, tasks/s',
        'its variance',
        'unary calls, tasks/s',
        'variation',
        'typed client, tasks/s',
        'variation',
      ],
      rows: OPERATIONS.map((operation) => {
        const [paperPerS, variance] = PAPER[operation] ?? [];
        const paper = [paperPerS?.toLocaleString('en') ?? '', variance === undefined ? '' : `${variance} %`];
        return [operation, ...paper, ...cells('unary', operation), ...cells('client', operation)];
      }),
    },
    paper:
      'FIFO enqueues are the fastest, because they need no read; lease + dequeue, two calls, comes close to an enqueue, ' +
      'because a random read of Bigtable is slower than a write.',
    shows:
      `In calls of their own, enqueues come to ${ofPaper('unary', 'enqueue')} the paper’s rate, FIFO enqueues to ` +
      `${ofPaper('unary', 'FIFO enqueue')} and lease + dequeue to ${ofPaper('unary', 'lease + dequeue')}; through the typed ` +
      `client to ${ofPaper('client', 'enqueue')}, ${ofPaper('client', 'FIFO enqueue')} and ` +
      `${ofPaper('client', 'lease + dequeue')}. Enqueues that must look their PIDs up have ${percent(enqueue / fifo)} of the ` +
      `rate of FIFO enqueues (the paper’s had 68 %), lease + dequeue has ` +
      `${percent(perS('unary', 'lease + dequeue') / enqueue)} of the rate of enqueues (the paper’s 91 %).`,
  };
}

/** A dash for a run of less than two intervals. */
function variationOf({ variationPercent }: RateSpread): string {
  return variationPercent > 0 ? `${variationPercent.toFixed(1)} %` : '–';
}
