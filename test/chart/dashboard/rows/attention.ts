import { CRITICAL, good, type Panel, type Row, WARNED } from '../panel.ts';
import { ALIVE_QUEUES, NOT_WORKED_ON, ofQueues, orNone, orZero, series } from '../queries.ts';

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

/** What needs attention, in numbers, and the alerts that fire. `alerts`: the names of all alert rules. */
export const attention = (alerts: readonly string[]): Row => ({
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
});
