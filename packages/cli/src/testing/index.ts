// For tests of several parts together: the command line in this process, and what its backups read.

export { sourceOf } from '../commands/backup.ts';
export { LineEnqueuer, type LinesSettings } from '../commands/enqueue-lines.ts';
export { type Line, PAUSE } from '../input/read-input.ts';
export { CALL_KINDS } from '../load/measure/call-figures.ts';
export { reportOf } from '../load/processes/run-job.ts';
export type { LoadReport } from '../load/report/load-report.ts';
export { mergeReports } from '../load/report/merge-reports.ts';
export { parseReport } from '../load/report/read-report.ts';
export { type RunOutcome, type RunSettings, runInstance } from '../load/run/run-instance.ts';
export { createProgram } from '../main.ts';
export { Runner } from '../session/session.ts';
export { messagesOfLatestError } from '../views/task-view.ts';
export { type CliEnded, runCli, startCli } from './cli-shell.ts';
export { smallRun, smallWorkload } from './small-load.ts';
