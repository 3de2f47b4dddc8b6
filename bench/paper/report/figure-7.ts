import type { Point } from '../result.ts';
import { at, BARS, drawn, figure, type Section, seriesOf, sweepRows, valuesOf } from './section.ts';

const SERIES = ['FIFO enqueue', 'enqueue', 'lease + dequeue'];

export function figureSeven(points: readonly Point[]): Section {
  const values = valuesOf(points);
  const [one = Number.NaN, most = Number.NaN] = [values[0], values.at(-1)];
  const x = { title: 'Nodes', scale: 'linear' as const, values };
  const subtitle = ['50 workers of 10 threads for each node, 50 tasks a call', 'All on one machine of two cores'];
  const ratios = (of: (point: Point) => number): string =>
    SERIES.map((name) => {
      const [few, many] = [at(points, name, one), at(points, name, most)];
      return few === undefined || many === undefined ? '–' : `${figure(of(many) / of(few))} (${name})`;
    }).join(', ');
  return {
    heading: 'Figure 7: clusters',
    setUp:
      'The paper: a cluster whose number of nodes is varied, each with 50 workers of 10 threads that use batches of 50, every ' +
      'node and every worker on a machine of its own. Here all nodes, and a load generator for each, are processes of **one ' +
      'machine with two cores and one disk**: aggregate throughput cannot grow with the number of nodes, and says only what ' +
      'it costs to have more of them. What carries over to several machines is the CPU time that all nodes together use for ' +
      'a task: if it stays, nodes on machines of their own add up. Workers go straight to the node that holds their groups.',
    charts: [
      [
        'figure-7a',
        {
          title: 'Figure 7: aggregate throughput by number of nodes',
          subtitle: [...subtitle, BARS],
          x,
          y: { title: 'Tasks per second, all nodes', scale: 'linear' },
          series: SERIES.map((name) => ({
            name,
            points: drawn(seriesOf(points, name), ({ tasksPerS }) => tasksPerS),
          })),
        },
      ],
      [
        'figure-7b',
        {
          title: 'Figure 7: CPU time of all nodes for each task',
          subtitle,
          x,
          y: { title: 'CPU time a task (µs)', scale: 'linear' },
          series: SERIES.map((name) => ({
            name,
            points: seriesOf(points, name).map((point) => ({ x: point.x, y: point.serverCpuUs ?? 0 })),
          })),
        },
      ],
    ],
    table: {
      columns: [
        'nodes',
        ...SERIES.map((name) => `${name}, tasks/s`),
        ...SERIES.map((name) => `${name}, µs CPU a task`),
      ],
      rows: sweepRows(points, SERIES, ({ tasksPerS }) => figure(tasksPerS.mean)).map((row, i) => [
        ...row,
        ...(sweepRows(points, SERIES, ({ serverCpuUs = Number.NaN }) => figure(serverCpuUs))[i]?.slice(1) ?? []),
      ]),
    },
    paper:
      'Aggregate throughput of enqueues and FIFO enqueues scales almost linearly with the number of nodes, that of lease + ' +
      'dequeue significantly less; enqueues are about 1.5 times as fast as lease + dequeue.',
    shows:
      `${most} nodes on the two cores of one have this part of one node’s throughput: ` +
      `${ratios(({ tasksPerS }) => tasksPerS.mean)}; and use so many times its CPU for a task: ` +
      `${ratios(({ serverCpuUs = Number.NaN }) => serverCpuUs)}. Where that factor is 1, as many machines would do as many ` +
      'times the work.',
  };
}
