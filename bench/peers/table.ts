import { OURSELVES, type PeerResult, type WorkloadName, workloadNames } from './results.ts';

const NAME_WIDTH = 22;
const FIGURE_WIDTH = 10;

/** Results by workload, the fastest first, each compared with this system. */
export function peersTable(results: readonly PeerResult[]): string {
  const lines = workloadNames.flatMap((workload) => {
    const group = results.filter((one) => one.workload === workload);
    return group.length === 0 ? [] : section(workload, group);
  });
  return `${lines.join('\n')}\n`;
}

function section(workload: WorkloadName, group: readonly PeerResult[]): string[] {
  const ours = group.find(({ peer }) => peer === OURSELVES);
  const sorted = [...group].sort((a, b) => goodness(b) - goodness(a));
  const head = line('', ['tasks/s', 'p50 ms', 'p99 ms', 'ours is'], '');
  return [
    '',
    `${workload}${head.slice(workload.length)}`,
    ...sorted.map((one) => line(one.peer, [...figures(one), one === ours ? '' : times(ours, one)], remark(one))),
  ];
}

/** A value of which larger is better: a rate, or the inverse of a latency or of memory. */
function goodness({ tasksPerS, p50Ms, more }: PeerResult): number {
  if (more?.memory_mib !== undefined) return 1 / more.memory_mib;
  return tasksPerS ?? 1 / (p50Ms ?? Number.POSITIVE_INFINITY);
}

/** The ratio of this system to another one. */
function times(ours: PeerResult | undefined, other: PeerResult): string {
  const ratio = ours === undefined ? Number.NaN : goodness(ours) / goodness(other);
  return Number.isFinite(ratio) ? `${ratio.toFixed(2)} ×` : '';
}

function figures({ tasksPerS, p50Ms, p99Ms }: PeerResult): string[] {
  return [
    tasksPerS === undefined ? '' : Math.round(tasksPerS).toLocaleString('en'),
    p50Ms === undefined ? '' : p50Ms.toFixed(2),
    p99Ms === undefined ? '' : p99Ms.toFixed(2),
  ];
}

function remark({ confirmed, how, more }: PeerResult): string {
  const memory = more?.memory_mib === undefined ? [] : [`${more.memory_mib} MiB`];
  return [...memory, how ?? '', ...(confirmed ? [] : ['completions not confirmed'])].join('; ');
}

function line(name: string, cells: readonly string[], remark: string): string {
  const padded = cells.map((cell) => cell.padStart(FIGURE_WIDTH)).join('');
  return `${name.padEnd(NAME_WIDTH)}${padded}  ${remark}`.trimEnd();
}
