/** A panel of the dashboard of Grafana. */
export interface Panel {
  readonly title: string;
  /** For somebody who sees the panel for the first time, at three in the morning. */
  readonly description: string;
  /** A number, lines over the time, or a line of states over the time. */
  readonly shown: 'number' | 'lines' | 'stack' | 'states';
  /** Unit of Grafana. */
  readonly unit: string;
  /** Expressions of PromQL by their legends. */
  readonly queries: Readonly<Record<string, string>>;
  /** A colour from each value on. The first has no value, and begins with the least. */
  readonly thresholds?: readonly (readonly [color: string, from: number | null])[];
  /** The sections of docs/operate/alerts.md that say what to do. */
  readonly alerts?: readonly string[];
  /** What a number without a series means. */
  readonly none?: string;
  readonly decimals?: number;
}

export interface Row {
  readonly title: string;
  /** Closed until somebody opens it, so that nobody asks for what a cluster does not have. */
  readonly collapsed?: boolean;
  readonly panels: readonly Panel[];
}

/** Names of metrics begin so. */
const series = (name: string, more = ''): string =>
  `taskmaster_${name}{namespace=~"$namespace",job=~"$job",instance=~"$instance"${more && `,${more}`}}`;
const ofQueues = (name: string, more = ''): string => series(name, `queue=~"$queue"${more && `,${more}`}`);
const ofProcess = (name: string): string =>
  `${name}{namespace=~"$namespace",job=~"$job",instance=~"$instance"} and on (job, instance) ${series('build_info')}`;

/** 0 as long as Prometheus has metrics of any program. Without any, "no data" is the truth. */
const ZERO = `0 * count(${series('build_info')})`;
const orZero = (expression: string): string => `${expression} or ${ZERO}`;
/** A line "none" at 0 where there is nothing. */
const orNone = (label: string, expression: string): string =>
  `${expression} or on () label_replace(${ZERO}, "${label}", "none", "", "")`;

const rate = (counter: string): string => `rate(${counter}[$__rate_interval])`;
const quantile = (q: number, histogram: string, by = ''): string =>
  `histogram_quantile(${q}, sum by (${by && `${by}, `}le) (${rate(histogram)}))`;
const top = (label: string, how: 'sum' | 'max', vector: string): string => `topk(10, ${how} by (${label}) (${vector}))`;

const ALIVE_QUEUES = 'queue!~".*[.]dead"';
const DEAD_QUEUES = 'queue=~".*[.]dead"';

/** Queues with available tasks of which none is leased, none was leased lately, and which nothing holds back. */
const NOT_WORKED_ON = [
  `sum by (namespace, job, queue) (${ofQueues('tasks', `state="available",${ALIVE_QUEUES}`)}) > 0`,
  `sum by (namespace, job, queue) (${ofQueues('tasks', 'state="leased"')}) > 0`,
  `sum by (namespace, job, queue) (rate(${ofQueues('queue_tasks_leased_total')}[10m])) > 0`,
  `sum by (namespace, job, queue) (${ofQueues('queue_paused')}) > 0`,
  `sum by (namespace, job, queue) (${ofQueues('queue_held_back_tasks')}) > 0`,
]
  .map((each) => `(${each})`)
  .join(' unless ');

const good = (...steps: readonly (readonly [string, number])[]) => [['green', null], ...steps] as const;
const WARNED = good(['orange', 1]);
const CRITICAL = good(['red', 1]);

const numbers: readonly Panel[] = [
  {
    title: 'Nodes that serve',
    description: 'Nodes that serve all groups that they hold. 0: the cluster is down, or Prometheus reaches no node.',
    shown: 'number',
    unit: 'none',
    queries: { nodes: `count(${series('health', 'state=~"serving|full"')} == 1) or vector(0)` },
    thresholds: [
      ['red', null],
      ['green', 1],
    ],
    alerts: ['ClusterDown'],
  },
  {
    title: 'Not scraped',
    description:
      'Nodes and proxies of which Prometheus gets no metrics: they are down, or the network or the credential is wrong.',
    shown: 'number',
    unit: 'none',
    queries: {
      programs:
        'count(up{namespace=~"$namespace",job=~"$job",instance=~"$instance"} == 0) or 0 * count(up{namespace=~"$namespace",job=~"$job"})',
    },
    thresholds: CRITICAL,
    alerts: ['TargetDown'],
  },
  {
    title: 'Members down',
    description: 'Active members that another member cannot reach. Nobody serves their groups until they are back.',
    shown: 'number',
    unit: 'none',
    queries: {
      members: orZero(`count(min by (namespace, job, member) (${series('cluster_member_up', 'state="active"')}) == 0)`),
    },
    thresholds: CRITICAL,
    alerts: ['MemberDown', 'HolderUnreachable'],
  },
  {
    title: 'Nodes not serving',
    description: 'Nodes that run and do not serve: they start, wait for others, have a full disk or have failed.',
    shown: 'number',
    unit: 'none',
    queries: { nodes: orZero(`count(${series('health', 'state="serving"')} == 0)`) },
    thresholds: CRITICAL,
    alerts: ['NodeNotServing'],
  },
  {
    title: 'Partitions out of place',
    description: 'Partitions that a node should hold and does not, or the other way round. Normal while they move.',
    shown: 'number',
    unit: 'none',
    queries: {
      partitions: orZero(
        `sum(abs(${series('cluster_partitions', 'state="wanted"')} - ignoring (state) ${series('cluster_partitions', 'state="serving"')}))`,
      ),
    },
    thresholds: WARNED,
    alerts: ['PartitionsOutOfPlace'],
  },
  {
    title: 'Calls refused',
    description:
      'Calls per second that were refused because something is wrong: a node overloaded, a disk full, data damaged, a node that cannot be reached, a wrong clock.',
    shown: 'number',
    unit: 'reqps',
    queries: {
      calls: orZero(
        `sum(rate(${series('refusals_total', 'reason=~"OVERLOADED|DISK_FULL|STORE_FAILED|CORRUPT_DATA|CLOCK_SKEW|HOLDER_UNREACHABLE|OUTCOME_UNKNOWN"')}[5m]))`,
      ),
    },
    thresholds: good(['red', 0.001]),
    alerts: ['CallsRefused', 'HolderUnreachable', 'OutcomesUnknown'],
  },
  {
    title: 'Oldest task',
    description: 'For how long the oldest task that is due has waited, without dead letters.',
    shown: 'number',
    unit: 's',
    queries: { age: orZero(`max(${ofQueues('oldest_task_age_seconds', ALIVE_QUEUES)})`) },
    thresholds: good(['orange', 300], ['red', 600]),
    alerts: ['TasksWaitTooLong'],
  },
  {
    title: 'Queues without workers',
    description:
      'Queues with tasks that wait while nobody works: none is leased, none was leased for ten minutes, and no pause or limit holds them.',
    shown: 'number',
    unit: 'none',
    queries: { queues: orZero(`count(${NOT_WORKED_ON})`) },
    thresholds: WARNED,
    alerts: ['TasksWaitTooLong', 'WorkersTooSlow'],
  },
  {
    title: 'Unclaimed tasks',
    description: 'Tasks of kinds that no worker has asked for in five minutes.',
    shown: 'number',
    unit: 'short',
    queries: { tasks: orZero(`sum(${ofQueues('unclaimed_tasks')})`) },
    thresholds: WARNED,
    alerts: ['TasksUnclaimed'],
  },
  {
    title: 'New dead letters, 1 h',
    description: 'Tasks that failed for the last time in the last hour and went to a dead-letter queue.',
    shown: 'number',
    unit: 'short',
    decimals: 0,
    queries: { tasks: orZero(`sum(increase(${series('tasks_dead_lettered_total')}[1h]))`) },
    thresholds: WARNED,
    alerts: ['NewDeadLetters'],
  },
  {
    title: 'Not started in time, 1 h',
    description:
      'Tasks that ended in the last hour because no worker had begun them by the instant by which they had to start.',
    shown: 'number',
    unit: 'short',
    decimals: 0,
    queries: { tasks: orZero(`sum(increase(${series('starts_missed_total')}[1h]))`) },
    thresholds: WARNED,
    alerts: ['StartsMissed'],
  },
  {
    title: 'Failed attempts',
    description: 'The part of all attempts in the last ten minutes that failed.',
    shown: 'number',
    unit: 'percentunit',
    queries: {
      attempts: orZero(
        `sum(rate(${series('attempts_failed_total')}[10m])) / (sum(rate(${series('tasks_leased_total')}[10m])) > 0)`,
      ),
    },
    thresholds: good(['orange', 0.1], ['red', 0.5]),
    alerts: ['AttemptsFail'],
  },
  {
    title: 'Held by limits',
    description: 'Available tasks that full limits hold back now. They run when others of the limit have ended.',
    shown: 'number',
    unit: 'short',
    queries: { tasks: orZero(`sum(${ofQueues('queue_held_back_tasks')})`) },
    thresholds: good(['blue', 1]),
  },
  {
    title: 'Pauses',
    description: 'Pauses of queues, patterns and groups that have not ended. Perhaps somebody forgot one.',
    shown: 'number',
    unit: 'none',
    queries: { pauses: orZero(`sum(${series('pauses')})`) },
    thresholds: good(['blue', 1]),
  },
  {
    title: 'Missed runs, 1 h',
    description: 'Runs of schedules that no node could enqueue in the last hour.',
    shown: 'number',
    unit: 'none',
    decimals: 0,
    queries: { runs: orZero(`sum(increase(${series('schedule_runs_total', 'outcome="missed"')}[1h]))`) },
    thresholds: WARNED,
    alerts: ['ScheduledRunsMissed'],
  },
  {
    title: 'Schedules ahead of clock',
    description: 'Schedules that do not run because a system clock was ahead and was set back.',
    shown: 'number',
    unit: 'none',
    queries: { schedules: orZero(`sum(${series('schedules_ahead_of_clock')})`) },
    thresholds: WARNED,
    alerts: ['SchedulesWaitForClock'],
  },
  {
    title: 'Disk: room',
    description:
      'Free space of the fullest disk, as a multiple of the space below which its node refuses new tasks. Below 1 it refuses them.',
    shown: 'number',
    unit: 'none',
    decimals: 1,
    queries: { room: `min(${series('disk_free_bytes')} / ${series('disk_full_below_bytes')})` },
    thresholds: [
      ['red', null],
      ['orange', 1],
      ['green', 3],
    ],
    alerts: ['DiskFull', 'DiskNearlyFull'],
    none: 'no data directory',
  },
  {
    title: 'Database silent',
    description: 'For how long a shared database has not answered. Calls wait for it.',
    shown: 'number',
    unit: 's',
    queries: { silent: orZero(`max(${series('database_waiting_seconds')})`) },
    thresholds: good(['orange', 2], ['red', 5]),
    alerts: ['DatabaseSilent', 'DatabaseConnectionsBreak'],
  },
  {
    title: 'Clocks apart',
    description: 'The largest difference between the system clocks of two members.',
    shown: 'number',
    unit: 's',
    queries: { difference: orZero(`max(abs(${series('member_clock_difference_seconds')}))`) },
    thresholds: good(['orange', 5], ['red', 60]),
    alerts: ['ClockDifference'],
  },
  {
    title: 'Certificate expires in',
    description:
      'Time until the first certificate of a node or proxy expires. After that, clients and members refuse it.',
    shown: 'number',
    unit: 's',
    queries: { left: `min(${series('tls_certificate_expires_timestamp_seconds')} - time())` },
    thresholds: [
      ['red', null],
      ['orange', 2 * 86_400],
      ['green', 14 * 86_400],
    ],
    alerts: ['CertificateExpiresSoon', 'CertificateExpiresNow'],
    none: 'no TLS',
  },
  {
    title: 'Files not reloaded',
    description: 'Changed certificates or files of rules that cannot be used, so that the old ones stay in force.',
    shown: 'number',
    unit: 'none',
    queries: { files: orZero(`sum(${series('reload_failed')})`) },
    thresholds: WARNED,
    alerts: ['ReloadFailed'],
  },
  {
    title: 'Age of the last backup',
    description:
      'Time since the last backup began that has all partitions of every node that was sent one since its start. A backup that fails makes it grow.',
    shown: 'number',
    unit: 's',
    queries: { age: `time() - min(${series('backup_oldest_timestamp_seconds')})` },
    thresholds: good(['orange', 26 * 3600], ['red', 3 * 86_400]),
    alerts: ['BackupTooOld', 'BackupFailed'],
    none: 'none since the start',
  },
  {
    title: 'Nodes without a backup',
    description: 'Nodes that have not sent all their partitions to a backup since they started.',
    shown: 'number',
    unit: 'none',
    queries: {
      nodes: orZero(
        `count(${series('health', 'state="serving"')} unless on (job, instance) ${series('backup_oldest_timestamp_seconds')})`,
      ),
    },
    thresholds: good(['blue', 1]),
    alerts: ['NoBackup'],
  },
  {
    title: 'Slowest commits',
    description: 'At the slowest node, 99 of 100 commits are quicker than this. A commit ends with the fsync.',
    shown: 'number',
    unit: 's',
    queries: {
      p99: orZero(
        `max(histogram_quantile(0.99, sum by (job, instance, le) (rate(${series('commit_duration_seconds_bucket')}[5m]))) >= 0)`,
      ),
    },
    thresholds: good(['orange', 0.05], ['red', 0.1]),
    alerts: ['SlowCommits'],
  },
];

/** The rows of the dashboard, the most urgent first. `alerts`: the names of all alert rules. */
export const rowsOf = (alerts: readonly string[]): readonly Row[] => [
  {
    title: 'What needs attention',
    panels: [
      ...numbers,
      {
        title: 'Alerts that fire, since when',
        description:
          'The alerts of alerts.yaml that fire, if this Prometheus has loaded it. "none": no alert fires, or it has not.',
        shown: 'states',
        unit: 'none',
        queries: {
          '{{alertname}}': orNone(
            'alertname',
            `max by (alertname) (ALERTS{alertstate="firing",alertname=~"${alerts.join('|')}"})`,
          ),
        },
        thresholds: CRITICAL,
      },
    ],
  },
  {
    title: 'Backlog and rates',
    panels: [
      {
        title: 'Tasks by state',
        description: 'All tasks of the chosen queues: available to workers, leased by them, or delayed.',
        shown: 'stack',
        unit: 'short',
        queries: { '{{state}}': `sum by (state) (${ofQueues('tasks')})` },
      },
      {
        title: 'Tasks per second',
        description:
          'What happens to tasks, at all chosen nodes. If "completed" stays below "enqueued", the backlog grows.',
        shown: 'lines',
        unit: 'ops',
        queries: {
          enqueued: `sum(${rate(series('tasks_enqueued_total'))})`,
          leased: `sum(${rate(series('tasks_leased_total'))})`,
          completed: `sum(${rate(series('tasks_completed_total'))})`,
        },
        alerts: ['WorkersTooSlow'],
      },
      {
        title: 'What goes wrong, per second',
        description:
          'Attempts that failed or were interrupted, leases that expired because a worker did not answer, tasks that became dead letters, were dropped by a full queue, or were not started in time.',
        shown: 'lines',
        unit: 'ops',
        queries: {
          'failed attempts': `sum(${rate(series('attempts_failed_total'))})`,
          'interrupted attempts': `sum(${rate(series('attempts_interrupted_total'))})`,
          'expired leases': `sum(${rate(series('leases_expired_total'))})`,
          'dead letters': `sum(${rate(series('tasks_dead_lettered_total'))})`,
          dropped: `sum(${rate(series('tasks_dropped_total'))})`,
          'not started in time': `sum(${rate(series('starts_missed_total'))})`,
          'results gone early': `sum(${rate(series('results_evicted_total'))})`,
        },
        alerts: ['AttemptsFail', 'NewDeadLetters', 'StartsMissed'],
      },
      {
        title: 'Oldest tasks by queue',
        description:
          'The ten queues whose oldest due task has waited longest. "_other": the largest of all smaller queues.',
        shown: 'lines',
        unit: 's',
        queries: { '{{queue}}': top('queue', 'max', ofQueues('oldest_task_age_seconds', ALIVE_QUEUES)) },
        thresholds: good(['red', 600]),
        alerts: ['TasksWaitTooLong'],
      },
      {
        title: 'Backlog by queue',
        description: 'The ten queues with the most available tasks.',
        shown: 'lines',
        unit: 'short',
        queries: { '{{queue}}': top('queue', 'sum', ofQueues('tasks', `state="available",${ALIVE_QUEUES}`)) },
        alerts: ['WorkersTooSlow'],
      },
      {
        title: 'Queues that nobody works on',
        description:
          'Their tasks that wait: none is leased, none was leased for ten minutes, and no pause or limit holds them.',
        shown: 'lines',
        unit: 'short',
        queries: { '{{queue}}': orNone('queue', `topk(10, sum by (queue) (${NOT_WORKED_ON}))`) },
        alerts: ['TasksWaitTooLong'],
      },
      {
        title: 'Enqueued by queue, per second',
        description: 'The ten queues that get the most tasks.',
        shown: 'lines',
        unit: 'ops',
        queries: { '{{queue}}': top('queue', 'sum', rate(ofQueues('queue_tasks_enqueued_total'))) },
      },
      {
        title: 'Completed by queue, per second',
        description: 'The ten queues of which workers complete the most tasks.',
        shown: 'lines',
        unit: 'ops',
        queries: { '{{queue}}': top('queue', 'sum', rate(ofQueues('queue_tasks_completed_total'))) },
      },
      {
        title: 'Failed attempts by queue, per second',
        description: 'The ten queues whose handlers fail most often. `taskmaster peek QUEUE` shows the errors.',
        shown: 'lines',
        unit: 'ops',
        queries: { '{{queue}}': top('queue', 'sum', rate(ofQueues('queue_attempts_failed_total'))) },
        alerts: ['AttemptsFail'],
      },
      {
        title: 'Dead letters by queue',
        description: 'The ten dead-letter queues with the most tasks. `taskmaster dead` shows them and puts them back.',
        shown: 'lines',
        unit: 'short',
        queries: { '{{queue}}': orNone('queue', top('queue', 'sum', ofQueues('tasks', DEAD_QUEUES))) },
        alerts: ['NewDeadLetters'],
      },
      {
        title: 'Paused, limited and unclaimed, by queue',
        description:
          'Why available tasks wait: the queue is paused (1), a limit holds them back, keys of a limit are full, or no worker asks for their kinds.',
        shown: 'lines',
        unit: 'short',
        queries: {
          'paused {{queue}}': orNone('queue', `topk(10, sum by (queue) (${ofQueues('queue_paused')}) > 0)`),
          'held {{queue}}': orNone('queue', `topk(10, sum by (queue) (${ofQueues('queue_held_back_tasks')}) > 0)`),
          'held keys {{queue}}': orNone('queue', `topk(10, sum by (queue) (${ofQueues('queue_held_keys')}) > 0)`),
          'unclaimed {{queue}}': orNone('queue', `topk(10, sum by (queue) (${ofQueues('unclaimed_tasks')}) > 0)`),
        },
        alerts: ['TasksUnclaimed'],
      },
      {
        title: 'Mean wait and work by queue',
        description:
          'For how long leased tasks had waited since they were due, and for how long workers had completed tasks. Mean values.',
        shown: 'lines',
        unit: 's',
        queries: {
          'wait {{queue}}': `topk(5, sum by (queue) (${rate(ofQueues('queue_task_wait_seconds_total'))}) / sum by (queue) (${rate(ofQueues('queue_tasks_leased_total'))}))`,
          'work {{queue}}': `topk(5, sum by (queue) (${rate(ofQueues('queue_task_work_seconds_total'))}) / sum by (queue) (${rate(ofQueues('queue_tasks_completed_total'))}))`,
        },
        alerts: ['TasksWaitTooLong', 'WorkersTooSlow'],
      },
      {
        title: 'Wait and work of tasks',
        description: 'How long tasks wait for a worker, and how long workers take, over all queues.',
        shown: 'lines',
        unit: 's',
        queries: {
          'wait p50': quantile(0.5, series('task_wait_seconds_bucket')),
          'wait p99': quantile(0.99, series('task_wait_seconds_bucket')),
          'work p50': quantile(0.5, series('task_work_seconds_bucket')),
          'work p99': quantile(0.99, series('task_work_seconds_bucket')),
        },
      },
      {
        title: 'Runs of schedules, per second',
        description:
          'Runs that were enqueued, missed because no node could enqueue them, skipped because an earlier run was in the queue, or triggered.',
        shown: 'lines',
        unit: 'ops',
        queries: { '{{outcome}}': `sum by (outcome) (${rate(series('schedule_runs_total'))})` },
        alerts: ['ScheduledRunsMissed', 'SchedulesWaitForClock'],
      },
      {
        title: 'Lateness of schedules',
        description: 'How long after its instant a run was enqueued. A healthy node needs about a tenth of a second.',
        shown: 'lines',
        unit: 's',
        queries: { p99: quantile(0.99, series('schedule_lateness_seconds_bucket')) },
      },
      {
        title: 'Held work, in numbers',
        description:
          'Queues and schedules that the nodes hold, bulk runs that go on, and requests that wait for tasks, for ends of tasks or for events.',
        shown: 'lines',
        unit: 'short',
        queries: {
          queues: `sum(${series('queues')})`,
          schedules: `sum(${series('schedules')})`,
          'bulk runs': `sum(${series('bulk_runs')})`,
          'waiting leases': `sum(${series('waiting_leases')})`,
          'waits for ends': `sum(${series('waits_for_tasks')})`,
          'event readers': `sum(${series('event_readers')})`,
        },
      },
    ],
  },
  {
    title: 'Calls and commits',
    panels: [
      {
        title: 'Calls per second',
        description:
          'Calls that ended, by method. Unary calls and calls over a stream count alike, at nodes and proxies.',
        shown: 'lines',
        unit: 'reqps',
        queries: { '{{method}}': top('method', 'sum', rate(series('rpc_duration_seconds_count'))) },
      },
      {
        title: 'Time of calls (p99)',
        description:
          '99 of 100 calls are answered within this time. A lease that waits for tasks counts with its wait.',
        shown: 'lines',
        unit: 's',
        queries: { '{{method}}': `topk(10, ${quantile(0.99, series('rpc_duration_seconds_bucket'), 'method')})` },
      },
      {
        title: 'Refused calls, per second',
        description: 'By reason. Some are normal, such as the loser of a race; docs/reference/errors.md explains each.',
        shown: 'lines',
        unit: 'reqps',
        queries: { '{{reason}}': orNone('reason', `sum by (reason) (${rate(series('refusals_total'))})`) },
        alerts: ['CallsRefused', 'OutcomesUnknown'],
      },
      {
        title: 'Commits',
        description:
          'Time to write one batch to the store, with the fsync. If a data directory is slow, every call is.',
        shown: 'lines',
        unit: 's',
        queries: {
          'p50 {{instance}}': quantile(0.5, series('commit_duration_seconds_bucket'), 'instance'),
          'p99 {{instance}}': quantile(0.99, series('commit_duration_seconds_bucket'), 'instance'),
        },
        thresholds: good(['red', 0.1]),
        alerts: ['SlowCommits'],
      },
      {
        title: 'Commits per second',
        description:
          'Batches that were written, and atoms, that is, requests that changed something. Many atoms share a batch under load.',
        shown: 'lines',
        unit: 'ops',
        queries: {
          batches: `sum(${rate(series('commit_duration_seconds_count'))})`,
          atoms: `sum(${rate(series('atoms_total'))})`,
        },
      },
      {
        title: 'Bytes written, and reads',
        description: 'What commits write per second, and how often the store is read because a task is not in memory.',
        shown: 'lines',
        unit: 'short',
        queries: {
          'bytes per second': `sum(${rate(series('commit_batch_bytes_sum'))})`,
          'refills per second': `sum(${rate(series('cache_refills_total'))})`,
          'single reads per second': `sum(${rate(series('cold_reads_total'))})`,
        },
      },
    ],
  },
  {
    title: 'Programs and machines',
    panels: [
      {
        title: 'Delay of the event loop (p99)',
        description:
          'How late a program gets to its work. Above a tenth of a second, a processor is too slow or a program overloaded.',
        shown: 'lines',
        unit: 's',
        queries: { '{{instance}}': ofProcess('nodejs_eventloop_lag_p99_seconds') },
        thresholds: good(['orange', 0.1]),
      },
      {
        title: 'Processor',
        description: 'Processor time per second. The event loop uses at most 1; threads of the store come in addition.',
        shown: 'lines',
        unit: 'short',
        queries: {
          '{{instance}}': `${rate('process_cpu_seconds_total{namespace=~"$namespace",job=~"$job",instance=~"$instance"}')} and on (job, instance) ${series('build_info')}`,
        },
      },
      {
        title: 'Memory',
        description: 'What the program uses of the memory that it may use. Above 1, the system may kill it.',
        shown: 'lines',
        unit: 'percentunit',
        queries: {
          '{{instance}}': `process_resident_memory_bytes{namespace=~"$namespace",job=~"$job",instance=~"$instance"} / on (job, instance) ${series('memory_bytes')}`,
        },
        thresholds: good(['red', 1]),
      },
      {
        title: 'Parts of the memory',
        description:
          'The largest size of each part, cached tasks as they are now, and requests and replies on their way.',
        shown: 'lines',
        unit: 'bytes',
        queries: {
          'at most: {{part}}': `max by (part) (${series('memory_part_bytes')})`,
          'cached tasks': `max(${series('cache_bytes')})`,
          'requests in progress': `max(${series('in_flight_bytes')})`,
          'requests that arrive': `max(${series('receiving_bytes')})`,
          'replies not read': `max(${series('unread_reply_bytes')})`,
          'names of waits': `max(${series('waiting_bytes')})`,
        },
      },
      {
        title: 'Size of the store',
        description:
          'Of each data directory on its disk, or of the tables in the database, and memory that is set aside for it.',
        shown: 'lines',
        unit: 'bytes',
        queries: { '{{kind}} {{instance}}': series('store_bytes') },
      },
      {
        title: 'Free space on disks',
        description:
          'Below the threshold, the node refuses new tasks and still completes the others. A shared database has no disk here.',
        shown: 'lines',
        unit: 'bytes',
        queries: {
          'free {{instance}}': series('disk_free_bytes'),
          'threshold {{instance}}': series('disk_full_below_bytes'),
        },
        alerts: ['DiskFull', 'DiskNearlyFull'],
      },
      {
        title: 'Connections and requests',
        description:
          'Open connections, connections that were refused because too many were open, and requests in progress.',
        shown: 'lines',
        unit: 'short',
        queries: {
          'open {{instance}}': series('connections'),
          'in progress {{instance}}': series('in_flight_requests'),
          'refused per second {{instance}}': rate(series('refused_connections_total')),
        },
      },
      {
        title: 'Clocks',
        description:
          'How far the clocks of members are from each other, and the clock of each engine from its system clock.',
        shown: 'lines',
        unit: 's',
        queries: {
          'member {{member}}': orNone('member', `max by (member) (abs(${series('member_clock_difference_seconds')}))`),
          'engine {{instance}}': series('clock_ahead_seconds'),
        },
        alerts: ['ClockDifference'],
      },
      {
        title: 'Backups',
        description: 'Bytes per second that nodes send to backups, and partitions that are sent now.',
        shown: 'lines',
        unit: 'short',
        queries: {
          'bytes per second': `sum(${rate(series('backup_bytes_total'))})`,
          partitions: `sum(${series('running_backups')})`,
        },
        alerts: ['BackupTooOld', 'NoBackup'],
      },
      {
        title: 'State of the nodes',
        description: 'The state of each node, as /readyz says it. Only "serving" and "full" serve.',
        shown: 'states',
        unit: 'none',
        queries: { '{{instance}} {{state}}': `${series('health')} == 1` },
        thresholds: [['blue', null]],
        alerts: ['NodeNotServing'],
      },
      {
        title: 'Versions',
        description:
          'Programs by their version of TaskMaster and of Node.js. Two versions are normal only during an upgrade.',
        shown: 'lines',
        unit: 'none',
        queries: { '{{version}} {{node}}': `count by (version, node) (${series('build_info')})` },
      },
      {
        title: 'TLS, per second',
        description: 'Handshakes that failed or were completed, and changed files that were taken over.',
        shown: 'lines',
        unit: 'ops',
        queries: {
          '{{result}}': orNone('result', `sum by (result) (${rate(series('tls_handshakes_total'))})`),
          'files taken over': `sum(${rate(series('tls_reloads_total'))})`,
        },
        alerts: ['CertificateExpiresSoon', 'ReloadFailed'],
      },
    ],
  },
  {
    title: 'The cluster',
    panels: [
      {
        title: 'Members',
        description: 'Whether all other members reach a member: 1 if they do, 0 if one does not.',
        shown: 'states',
        unit: 'none',
        queries: { '{{member}} ({{state}})': `min by (member, state) (${series('cluster_member_up')})` },
        thresholds: [
          ['red', null],
          ['green', 1],
        ],
        alerts: ['MemberDown'],
      },
      {
        title: 'Members by state',
        description: 'As the node sees it that sees the most. A member that has left for good stays known for a while.',
        shown: 'lines',
        unit: 'none',
        queries: { '{{state}}, alive: {{alive}}': `max by (state, alive) (${series('cluster_members')})` },
      },
      {
        title: 'Partitions by node',
        description:
          'What each node serves, and what it should hold. The sum of "serving" is the number of partitions: what is missing, nobody serves.',
        shown: 'stack',
        unit: 'none',
        queries: {
          'serving {{instance}}': series('cluster_partitions', 'state="serving"'),
        },
        alerts: ['PartitionsOutOfPlace'],
      },
      {
        title: 'Partitions on their way',
        description: 'Partitions that a node should hold, and those that it hands over or has frozen for it.',
        shown: 'lines',
        unit: 'none',
        queries: { '{{state}} {{instance}}': series('cluster_partitions', 'state!="serving"') },
        alerts: ['PartitionsOutOfPlace'],
      },
      {
        title: 'Hand-offs',
        description:
          'Partitions per second that were handed over, and attempts that failed. The log of the node says why.',
        shown: 'lines',
        unit: 'ops',
        queries: {
          'handed over {{instance}}': rate(series('cluster_hand_offs_sent_total')),
          'failed {{instance}}': rate(series('cluster_hand_offs_failed_total')),
        },
        alerts: ['PartitionsOutOfPlace'],
      },
      {
        title: 'Size of hand-offs',
        description: 'Rows and bytes per second that completed hand-offs have sent.',
        shown: 'lines',
        unit: 'short',
        queries: {
          'rows per second': `sum(${rate(series('cluster_hand_off_rows_total'))})`,
          'bytes per second': `sum(${rate(series('cluster_hand_off_bytes_total'))})`,
        },
      },
      {
        title: 'Freeze of hand-offs',
        description:
          'For how long calls to a partition waited while it moved, in the last hour. 0: no partition moved.',
        shown: 'lines',
        unit: 's',
        queries: {
          p99: orZero(
            `histogram_quantile(0.99, sum by (le) (increase(${series('cluster_hand_off_freeze_duration_seconds_bucket')}[1h]))) >= 0`,
          ),
        },
      },
      {
        title: 'Gossip',
        description: 'Datagrams per second between members, and those that were refused, by reason.',
        shown: 'lines',
        unit: 'pps',
        queries: {
          '{{direction}}': `sum by (direction) (${rate(series('gossip_datagrams_total'))})`,
          'refused: {{reason}}': orNone(
            'reason',
            `sum by (reason) (${rate(series('gossip_refused_datagrams_total'))})`,
          ),
        },
      },
    ],
  },
  {
    title: 'Proxies',
    collapsed: true,
    panels: [
      {
        title: 'Nodes that proxies know',
        description:
          'Members that may hold partitions, by whether gossip reaches them, as the proxy sees it that reaches the fewest.',
        shown: 'lines',
        unit: 'none',
        queries: { 'alive: {{alive}}': `min by (alive) (${series('proxy_nodes')})` },
        alerts: ['MemberDown'],
      },
      {
        title: 'Held calls',
        description:
          'Calls that wait at proxies for a group that moves or a node that restarts, and open streams of autoscalers.',
        shown: 'lines',
        unit: 'short',
        queries: {
          'held {{instance}}': series('proxy_held_calls'),
          'autoscalers {{instance}}': series('proxy_scaler_streams'),
        },
      },
      {
        title: 'Calls sent again, per second',
        description: 'Calls that proxies sent to another node because the group had moved, or repeated after a delay.',
        shown: 'lines',
        unit: 'reqps',
        queries: {
          'another node {{instance}}': rate(series('proxy_rerouted_total')),
          'repeated {{instance}}': rate(series('proxy_repeated_total')),
        },
        alerts: ['HolderUnreachable'],
      },
    ],
  },
  {
    title: 'A shared database',
    collapsed: true,
    panels: [
      {
        title: 'Statements per second',
        description: 'Statements to the PostgreSQL database, by kind. Without a shared database this row has no data.',
        shown: 'lines',
        unit: 'ops',
        queries: {
          '{{statement}}': `sum by (statement) (${rate(series('database_statement_duration_seconds_count'))})`,
        },
      },
      {
        title: 'Time of statements (p99)',
        description:
          '99 of 100 statements are answered within this time. A slow "commit": look at the disk of the database and its standby.',
        shown: 'lines',
        unit: 's',
        queries: { '{{statement}}': quantile(0.99, series('database_statement_duration_seconds_bucket'), 'statement') },
        thresholds: good(['red', 0.1]),
        alerts: ['SlowCommits', 'DatabaseSilent'],
      },
      {
        title: 'Silence and lost connections',
        description:
          'For how long the database has not answered, and connections that were lost in the last 15 minutes.',
        shown: 'lines',
        unit: 'short',
        queries: {
          'silent, s {{instance}}': series('database_waiting_seconds'),
          'lost connections {{instance}}': `increase(${series('database_reconnects_total')}[15m])`,
        },
        alerts: ['DatabaseSilent', 'DatabaseConnectionsBreak'],
      },
    ],
  },
  {
    title: 'Quotas',
    collapsed: true,
    panels: [
      {
        title: 'Quotas of groups',
        description:
          'What groups use of their quotas, the fullest first. At 1, further tasks are refused with QUOTA_EXCEEDED. "none": no group has a quota.',
        shown: 'lines',
        unit: 'percentunit',
        queries: {
          '{{group}} {{quota}}': orNone(
            'group',
            `topk(10, max by (group, quota) (${series('group_quota_used', 'group=~"$group"')} / ${series('group_quota', 'group=~"$group"')}))`,
          ),
        },
        thresholds: good(['orange', 0.8], ['red', 1]),
      },
      {
        title: 'Quotas of principals',
        description:
          'What principals use of their quotas at one program, the fullest first. "none": no principal has a quota.',
        shown: 'lines',
        unit: 'percentunit',
        queries: {
          '{{principal}} {{quota}}': orNone(
            'principal',
            `topk(10, max by (principal, quota) (${series('principal_quota_used')} / ${series('principal_quota')}))`,
          ),
        },
        thresholds: good(['orange', 0.8], ['red', 1]),
      },
      {
        title: 'Refused for quotas of principals, per second',
        description: 'Calls and connections that were refused because a principal had reached its quota.',
        shown: 'lines',
        unit: 'reqps',
        queries: {
          '{{principal}} {{quota}}': orNone(
            'principal',
            `topk(10, sum by (principal, quota) (${rate(series('principal_quota_refusals_total'))}))`,
          ),
        },
      },
    ],
  },
];
