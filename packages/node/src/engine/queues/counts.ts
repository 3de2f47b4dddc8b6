/** What happened since the start, for metrics. Soft state. */
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
