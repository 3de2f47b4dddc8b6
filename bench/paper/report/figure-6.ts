import type { Point } from '../result.ts';
import { BARS, drawn, figure, percent, type Section, seriesOf, spread, valuesOf } from './section.ts';

export function figureSix(all: readonly Point[]): Section {
  const points = seriesOf(all, 'lone worker');
  const values = valuesOf(points);
  const [alone, one, most] = [points[0], points[1], points.at(-1)];
  const rate = (point: Point | undefined): number => point?.tasksPerS.mean ?? Number.NaN;
  const refills = (point: Point | undefined): number => point?.refillsPerMin ?? Number.NaN;
  const x = { title: 'Loading workers', scale: 'linear' as const, values };
  const subtitle = [
    'A lone single-threaded worker beside workers of 50 threads that enqueue,',
    '50 tasks a call; 10 MB of cache',
  ];
  return {
    heading: 'Figure 6: isolation of queues',
    setUp:
      'The paper: up to 10 workers of 50 threads each issue updates of 50 tasks to 10 distinct queues, beside a lone worker ' +
      'of one thread that dequeues from a queue filled before; the cache is limited to 10 MB. Here the same; the lone worker ' +
      'leases one task and dequeues it, on a queue that is several times the cache, in a process of its own. Only it leases, ' +
      'so that all refills are of its queue. Loaders, lone worker and node share two cores, which the paper’s did not.',
    charts: [
      [
        'figure-6a',
        {
          title: 'Figure 6(a): throughput of the lone worker',
          subtitle: [...subtitle, BARS],
          x,
          y: { title: 'Tasks per second', scale: 'linear' },
          series: [{ name: 'lone worker', points: drawn(points, ({ tasksPerS }) => tasksPerS) }],
        },
      ],
      [
        'figure-6b',
        {
          title: 'Figure 6(b): refills of the lone worker’s queue',
          subtitle,
          x,
          y: { title: 'Refills per minute', scale: 'linear' },
          series: [{ name: 'refills', points: points.map((point) => ({ x: point.x, y: point.refillsPerMin ?? 0 })) }],
        },
      ],
    ],
    table: {
      columns: [
        'loaders',
        'lone worker, tasks/s',
        'of its rate alone',
        'its lease, ms',
        'refills/min',
        'refills for 1,000 tasks',
        'loaders, tasks/s',
      ],
      rows: points.map((point) => [
        String(point.x),
        figure(rate(point)),
        percent(rate(point) / rate(alone)),
        spread(point.latencyMs),
        figure(refills(point)),
        figure(((refills(point) / 60) * 1000) / rate(point)),
        point.besideTasksPerS === undefined ? '' : figure(point.besideTasksPerS),
      ]),
    },
    paper:
      'The first few loaders cost the lone worker much, further ones less, and from the sixth on nothing more. Its queue is ' +
      'not refilled significantly more often under load.',
    shows:
      `Alone, the worker takes ${figure(rate(alone))} tasks a second; beside ${one?.x ?? '–'} of them ${figure(rate(one))}, ` +
      `beside ${most?.x ?? '–'} of them ${figure(rate(most))}, ${percent(rate(most) / rate(alone))} of its rate alone. Its ` +
      `queue is refilled ${figure(refills(alone))} times a minute alone, and ${figure(refills(most))} times beside ` +
      `${most?.x ?? '–'}. A refill reads about as many tasks as the queue has lately handed out in a ` +
      'second, and 100 at least.',
  };
}
