import { NO_CONTENTION, strategies } from '../experiments/contention.ts';
import type { Locks } from '../load/workers-load.ts';
import type { Point } from '../result.ts';
import {
  at,
  BARS,
  drawn,
  figure,
  percent,
  type Section,
  seriesOf,
  spread,
  sweepRows,
  times,
  valuesOf,
} from './section.ts';

const LOCKS: readonly Locks[] = ['all', 'queue', 'task', 'none'];

export function figureThree(all: readonly Point[]): Section {
  const alone = at(all, 'none', NO_CONTENTION);
  const points = all.filter(({ x }) => x !== NO_CONTENTION);
  const values = valuesOf(points);
  const [low = Number.NaN, high = Number.NaN] = [values[0], values.at(-1)];
  const ms = (locks: Locks, x: number): number => at(points, locks, x)?.latencyMs.median ?? Number.NaN;
  const aloneMs = alone?.latencyMs.median ?? Number.NaN;
  return {
    heading: 'Figure 3: updates that collide',
    setUp:
      'The paper: 10 workers of 50 threads, each worker with a queue of its own; the likelihood of colliding (queue, PID) ' +
      'pairs is varied. Here: each update replaces one of 1/p tasks of its worker’s queue, so that two updates of a worker ' +
      'collide with a probability of p. The node has one strategy only: updates are decided one after the other in memory, ' +
      'and none waits for another’s write; replies leave when the write is durable. The paper’s strategies are locks in ' +
      'the load generator, held from before the call until its reply: they include the round trip of the loopback ' +
      'interface, which the locks inside the paper’s node did not.',
    charts: [
      [
        'figure-3',
        {
          title: 'Figure 3: latency of updates that collide',
          subtitle: ['10 workers of 50 threads, 1,000-byte tasks', BARS],
          x: { title: 'Probability that two updates of a worker collide', scale: 'log', values },
          y: { title: 'Latency (ms)', scale: 'log' },
          series: LOCKS.map((locks) => ({
            name: strategies[locks],
            points: drawn(seriesOf(points, locks), ({ latencyMs }) => latencyMs),
          })),
        },
      ],
    ],
    table: {
      columns: ['p', ...LOCKS.map((locks) => `${strategies[locks]}, ms`)],
      rows: sweepRows(points, LOCKS, ({ latencyMs }) => spread(latencyMs)),
    },
    paper:
      'Partial causality reduces latency more than 4-fold against strict sequence; true causality by another near 10-fold ' +
      'where contention is small, and it is bounded above by partial causality.',
    shows:
      `At p = ${low}, strict sequence takes ${figure(ms('all', low))} ms, ${times(ms('all', low) / ms('queue', low))} ` +
      `what partial causality takes (${figure(ms('queue', low))} ms), and that ` +
      `${times(ms('queue', low) / ms('task', low))} what locks by task take (${figure(ms('task', low))} ms). At p = ${high} ` +
      `they take ${figure(ms('all', high))}, ${figure(ms('queue', high))} and ${figure(ms('task', high))} ms. The node ` +
      `without locks takes ${figure(ms('none', low))} ms at p = ${low} and ${figure(ms('none', high))} ms at p = ${high}, ` +
      `${percent(ms('none', high) / aloneMs)} of what it takes when nothing collides (${figure(aloneMs)} ms). ` +
      'There are always 500 updates under way, so that all of these are times in line, ' +
      '500 divided by the rate.',
  };
}
