import type { Point } from '../result.ts';
import { BARS, drawn, figure, type Section, seriesOf, spread, valuesOf } from './section.ts';

export function figureFour(all: readonly Point[]): Section {
  const points = seriesOf(all, 'reads');
  const [first, last] = [points[0], points.at(-1)];
  const values = valuesOf(points);
  const least = points.find(({ readsPer1000Tasks = 0 }) => readsPer1000Tasks <= 2 * (last?.readsPer1000Tasks ?? 0));
  const per1000 = (point: Point | undefined): string => figure(point?.readsPer1000Tasks ?? Number.NaN);
  return {
    heading: 'Figure 4: reads by the size of the cache',
    setUp:
      'The paper: leases in batches of 50 from 500 queues, 50 workers of 10 threads, tasks of 100 bytes. Here the same, and ' +
      'every lease is followed by the dequeue of its tasks, so that the heads of the queues move. The node has started with ' +
      'nothing in memory before each point. A read is a refill of a queue’s head, or the lookup of a single task that ' +
      'the cache had to let go. The cache counts what a task takes in memory, 260 bytes beside its payload and PID: 47 MB of payload are about 180 MB.',
    charts: [
      [
        'figure-4',
        {
          title: 'Figure 4: reads of the store by the size of the cache',
          subtitle: ['50 workers of 10 threads, 500 queues, 100-byte tasks, 50 a lease', BARS],
          x: { title: 'Cache (MiB)', scale: 'log', values },
          y: { title: 'Reads per second', scale: 'log' },
          series: [{ name: 'reads', points: drawn(points, ({ readsPerS }) => readsPerS) }],
        },
      ],
    ],
    table: {
      columns: ['cache, MiB', 'reads/s', 'reads for 1,000 tasks', 'tasks/s leased and dequeued'],
      rows: points.map((point) => [
        String(point.x),
        point.readsPerS === undefined ? '' : spread(point.readsPerS),
        per1000(point),
        figure(point.tasksPerS.mean),
      ]),
    },
    paper:
      'Misses fall dramatically as soon as the cache is of any reasonable size; more than 10 MB brings less and less, and ' +
      'from 47 MB on (500 queues of 1,000 cached tasks of 100 bytes) nothing. They never reach zero, because queues need ' +
      'refilling.',
    shows:
      `From ${first?.x ?? '–'} MiB to ${last?.x ?? '–'} MiB reads fall from ${per1000(first)} to ${per1000(last)} for every ` +
      `1,000 tasks, and tasks a second go from ${figure(first?.tasksPerS.mean ?? Number.NaN)} to ` +
      `${figure(last?.tasksPerS.mean ?? Number.NaN)}. ${least?.x ?? '–'} MiB are enough to be within twice the least.`,
  };
}
