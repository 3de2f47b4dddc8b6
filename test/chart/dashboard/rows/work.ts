import { good, type Row } from '../panel.ts';
import { ALIVE_QUEUES, DEAD_QUEUES, NOT_WORKED_ON, ofQueues, orNone, quantile, rate, series, top } from '../queries.ts';

/** What queues and workers do. */
export const work: Row = {
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
};
