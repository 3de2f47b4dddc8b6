import type { Point } from '../result.ts';
import { at, BARS, drawn, figure, type Section, seriesOf, spread, sweepRows, times, valuesOf } from './section.ts';

const SERIES = ['FIFO enqueue', 'enqueue', 'lease + dequeue'];

export function figureFive(points: readonly Point[]): Section {
  const values = valuesOf(points);
  const [least = Number.NaN] = values;
  const x = { title: 'Tasks in a call', scale: 'log' as const, values };
  const subtitle = ['50 workers of 10 threads, 10 queues each, 1,000-byte tasks', BARS];
  const nameOfLatency = (name: string): string => (name === 'lease + dequeue' ? 'lease' : name);
  const growth = SERIES.map((name) => growthOf(points, name));
  const ms = (name: string): string => figure(at(points, name, least)?.latencyMs.median ?? Number.NaN);
  return {
    heading: 'Figure 5: bulk operations',
    setUp:
      'The paper: 50 workers of 10 threads, 10 queues each; they enqueue, or lease and then dequeue. Here the same: the ' +
      'tasks of an update are spread over the worker’s 10 queues, a lease names all of them. 500 calls of more than 100 ' +
      'tasks would be more than the node takes at once (128 MiB of payload), so that beyond that a worker has fewer ' +
      'threads: 5, 2 and 1 with 200, 500 and 1,000 tasks a call. “Enqueue” looks up its PIDs in the store, as in Table 1, in ' +
      'queues that grow all through its sweep. ' +
      'Of lease + dequeue the latency is the lease’s, as in the paper. Every second thread begins with a dequeue, of tasks ' +
      'that it has leased before: threads that all begin with a lease would stay in step, and tasks would be done in bursts.',
    charts: [
      [
        'figure-5a',
        {
          title: 'Figure 5(a): throughput by tasks in a call',
          subtitle,
          x,
          y: { title: 'Tasks per second', scale: 'log' },
          series: SERIES.map((name) => ({
            name,
            points: drawn(seriesOf(points, name), ({ tasksPerS }) => tasksPerS),
          })),
        },
      ],
      [
        'figure-5b',
        {
          title: 'Figure 5(b): latency by tasks in a call',
          subtitle,
          x,
          y: { title: 'Latency of a call (ms)', scale: 'log' },
          series: SERIES.map((name) => ({
            name: nameOfLatency(name),
            points: drawn(seriesOf(points, name), ({ latencyMs }) => latencyMs),
          })),
        },
      ],
    ],
    table: {
      columns: [
        'tasks a call',
        ...SERIES.map((name) => `${name}, tasks/s`),
        ...SERIES.map((name) => `${nameOfLatency(name)}, ms`),
      ],
      rows: sweepRows(points, SERIES, ({ tasksPerS }) => figure(tasksPerS.mean)).map((row, i) => [
        ...row,
        ...(sweepRows(points, SERIES, ({ latencyMs }) => spread(latencyMs))[i]?.slice(1) ?? []),
      ]),
    },
    paper:
      'Throughput grows with the batch up to a threshold, which the latency of writes and the number of threads set. FIFO ' +
      'enqueues are the fastest, lease + dequeue, which takes two calls, is the slowest. Enqueues have a higher latency than ' +
      'leases, because of the reads.',
    shows:
      `${growth.join('; ')}. With ${least} task a call an enqueue takes ${ms('enqueue')} ms, a FIFO enqueue ` +
      `${ms('FIFO enqueue')} ms and a lease ${ms('lease + dequeue')} ms, nearly all of it in line behind the other calls, of ` +
      'which there are always 500.',
  };
}

/** The increase from one task per call to the best batch size. */
function growthOf(points: readonly Point[], name: string): string {
  const series = seriesOf(points, name);
  const [first] = series;
  const best = series.reduce<Point | undefined>(
    (most, point) => (most === undefined || point.tasksPerS.mean > most.tasksPerS.mean ? point : most),
    undefined,
  );
  if (first === undefined || best === undefined) return `${name}: not measured`;
  const [from, to] = [first.tasksPerS.mean, best.tasksPerS.mean];
  return `${name} grows from ${figure(from)} to ${figure(to)} tasks/s, ${times(to / from)} as many, at ${best.x.toLocaleString('en')} tasks a call`;
}
