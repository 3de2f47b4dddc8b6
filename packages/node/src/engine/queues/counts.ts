/** Events counted since the process started, for metrics. Not durable. */
export class Counts {
  tasksEnqueued = 0;
  tasksLeased = 0;
  tasksCompleted = 0;
  leasesExpired = 0;
  tasksDeadLettered = 0;
  refills = 0;
  coldReads = 0;
  refused = 0;
}
