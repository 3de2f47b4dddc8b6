import { CALL_KINDS, CallFigures } from '../measure/call-figures.ts';
import { Latencies } from '../measure/latencies.ts';
import { Interval, Timeline } from '../measure/timeline.ts';
import { type LoadReport, REPORT_FORMAT, REPORT_KIND, type ReportedInterval } from './load-report.ts';

/** A text is no report of a load, or one of another format. */
export class InvalidReportError extends Error {
  override readonly name = 'InvalidReportError';
}

/** @throws InvalidReportError */
export function parseReport(text: string): LoadReport {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new InvalidReportError('it is not JSON', { cause });
  }
  const { kind, format } = (value ?? {}) as Partial<Record<'kind' | 'format', unknown>>;
  if (kind !== REPORT_KIND) throw new InvalidReportError('it is no report of `taskmaster load`');
  if (format !== REPORT_FORMAT) {
    throw new InvalidReportError(`it has the format ${format}, and this release reads the format ${REPORT_FORMAT}`);
  }
  const damaged = FIELDS.filter(([field, isRight]) => !isRight((value as Record<string, unknown>)[field]));
  const [[first] = []] = damaged;
  if (first !== undefined) throw new InvalidReportError(`its field '${first}' is missing or damaged`);
  return value as LoadReport;
}

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null;
const isNumber = (value: unknown): boolean => typeof value === 'number';

/** The fields without which a report cannot be shown or joined. A damaged histogram is noticed when it is read. */
const FIELDS: readonly (readonly [keyof LoadReport, (value: unknown) => boolean])[] = [
  ['startedAt', (value) => typeof value === 'string'],
  ['elapsedMs', isNumber],
  ['instances', (value) => Array.isArray(value) && value.length > 0 && value.every(isNumber)],
  ['workload', (value) => isObject(value) && isObject((value as LoadReport['workload']).pace)],
  ['intervalMs', isNumber],
  ['intervals', (value) => Array.isArray(value) && value.every(isObject)],
  ['total', (value) => isObject(value) && isObject((value as LoadReport['total']).calls)],
  ['notStarted', isNumber],
  ['kills', Array.isArray],
];

/** The timeline of a report. @throws InvalidReportError */
export function timelineOf({ intervalMs, intervals }: LoadReport): Timeline {
  return new Timeline(intervalMs, intervals.map(intervalOf));
}

/** An interval from its report. @throws InvalidReportError */
export function intervalOf({ calls, retries, openTasks }: Omit<ReportedInterval, 'atMs'>): Interval {
  const interval = new Interval();
  interval.openTasks = openTasks;
  for (const [reason, count] of Object.entries(retries)) interval.retries.set(reason, count);
  for (const kind of CALL_KINDS) {
    const told = calls[kind];
    if (told === undefined) continue;
    interval.calls.set(kind, new CallFigures(decoded(told.histogram), told.tasks, told.errors));
  }
  return interval;
}

function decoded(histogram: string): Latencies {
  try {
    return Latencies.decode(histogram);
  } catch (cause) {
    throw new InvalidReportError('a histogram is damaged', { cause });
  }
}
