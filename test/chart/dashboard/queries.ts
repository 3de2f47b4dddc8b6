/** Names of metrics begin so. */
export const series = (name: string, more = ''): string =>
  `taskmaster_${name}{namespace=~"$namespace",job=~"$job",instance=~"$instance"${more && `,${more}`}}`;
export const ofQueues = (name: string, more = ''): string => series(name, `queue=~"$queue"${more && `,${more}`}`);
export const ofProcess = (name: string): string =>
  `${name}{namespace=~"$namespace",job=~"$job",instance=~"$instance"} and on (job, instance) ${series('build_info')}`;

/** 0 as long as Prometheus has metrics of any program. Without any, "no data" is the truth. */
const ZERO = `0 * count(${series('build_info')})`;
export const orZero = (expression: string): string => `${expression} or ${ZERO}`;
/** A line "none" at 0 where there is nothing. */
export const orNone = (label: string, expression: string): string =>
  `${expression} or on () label_replace(${ZERO}, "${label}", "none", "", "")`;

export const rate = (counter: string): string => `rate(${counter}[$__rate_interval])`;
export const quantile = (q: number, histogram: string, by = ''): string =>
  `histogram_quantile(${q}, sum by (${by && `${by}, `}le) (${rate(histogram)}))`;
export const top = (label: string, how: 'sum' | 'max', vector: string): string =>
  `topk(10, ${how} by (${label}) (${vector}))`;

export const ALIVE_QUEUES = 'queue!~".*[.]dead"';
export const DEAD_QUEUES = 'queue=~".*[.]dead"';

/** Queues with available tasks of which none is leased, none was leased lately, and which nothing holds back. */
export const NOT_WORKED_ON = [
  `sum by (namespace, job, queue) (${ofQueues('tasks', `state="available",${ALIVE_QUEUES}`)}) > 0`,
  `sum by (namespace, job, queue) (${ofQueues('tasks', 'state="leased"')}) > 0`,
  `sum by (namespace, job, queue) (rate(${ofQueues('queue_tasks_leased_total')}[10m])) > 0`,
  `sum by (namespace, job, queue) (${ofQueues('queue_paused')}) > 0`,
  `sum by (namespace, job, queue) (${ofQueues('queue_held_back_tasks')}) > 0`,
]
  .map((each) => `(${each})`)
  .join(' unless ');
