/** A format of the rows that nodes keep on disk and send to each other. */
export interface DataFormat {
  /** Number of the format: one more than that of the format before. */
  readonly format: number;
  /** First release that writes it. */
  readonly release: string;
  /** How it differs from the format before. */
  readonly changed: string;
  /** Whether releases of the format before can use this format, too. */
  readonly downgrade: boolean;
}

/**
 * Every format, oldest first. Add one for each change of rows, log entries or files that an earlier release may misread.
 * docs/upgrading.md has this table.
 */
export const dataFormats: readonly [DataFormat, ...DataFormat[]] = [
  {
    format: 1,
    release: 'builds before 0.1.0',
    changed: 'A directory without the file `format`.',
    downgrade: false,
  },
  {
    format: 2,
    release: 'builds before 0.1.0',
    changed: 'The file `format` names the format of the directory. The rows are those of format 1.',
    downgrade: true,
  },
  {
    format: 3,
    release: '0.1.0',
    changed: 'Tasks keep failures, progress, reruns, and where dead letters came from.',
    downgrade: false,
  },
  {
    format: 4,
    release: '0.1.0',
    changed:
      'Tasks have headers, keys and time limits, and keep that they were cancelled; dead letters keep their former PID; groups have schedules and subscriptions to topics.',
    downgrade: false,
  },
  {
    format: 5,
    release: '0.1.0',
    changed:
      'After a crash the state of a new task may be in the log entry only: the rows of tasks that are leased soon follow with the checkpoint.',
    downgrade: false,
  },
  {
    format: 6,
    release: '0.1.0',
    changed:
      'Groups have pauses and limits of queues, whose tasks earlier builds would lease; tasks may have an instant by which they must start.',
    downgrade: false,
  },
  {
    format: 7,
    release: '0.1.0',
    changed:
      'Tasks may wait for signals or for their order, have parents, keep checkpoints, count their interruptions, and keep whether their work has begun and whether they are suspected of having killed a worker; log entries may say what happened in groups whose events are read; tasks with limit keys or kinds are in an index of these, and not in the heads of their queues.',
    downgrade: false,
  },
  {
    format: 8,
    release: '0.1.0',
    changed:
      'The last task of an order key has a row in the index of its queue instead of a record of the group. Tasks that an earlier build has put in the order of a key keep it; later ones with the key do not wait for them.',
    downgrade: false,
  },
];

/** The oldest of the formats whose releases can use data of the last one. */
export function oldestReaderOf(formats: readonly [DataFormat, ...DataFormat[]]): DataFormat {
  return formats.findLast(({ downgrade }) => !downgrade) ?? formats[0];
}

/** The format that this release writes. It reads all earlier ones. */
export const DATA_FORMAT: number = (dataFormats.at(-1) ?? dataFormats[0]).format;

/** The oldest format whose releases can use what this release writes. Transfers and backups name it. */
export const OLDEST_READER_FORMAT: number = oldestReaderOf(dataFormats).format;
