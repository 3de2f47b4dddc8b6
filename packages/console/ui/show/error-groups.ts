import type { TaskInfo } from '@taskmaster/proto/messages';

/** Dead letters that died of the same. */
export interface ErrorGroup {
  /** The message with `…` for what differs. */
  readonly title: string;
  /** A text that is in the messages of all of them, for filters. Empty: they have none, because their leases expired. */
  readonly common: string;
  readonly tasks: readonly TaskInfo[];
  /** When the first and the last of them failed, in ms since 1970. */
  readonly firstMs: number;
  readonly lastMs: number;
  /** Labels of the workers, each once. */
  readonly workers: readonly string[];
}

/** What differs from task to task: numbers, ids, addresses, quoted texts, paths. */
const VARIES =
  /0x[0-9a-f]+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|"[^"]*"|'[^']*'|\d+(?:[.:]\d+)*/gi;

const EXPIRED = 'The lease expired';

/** The filters of bulk runs take at most so many bytes. */
const MOST_BYTES = 256;

/** Groups tasks by the error of their last attempt. The largest group comes first. */
export function groupByError(tasks: readonly TaskInfo[]): ErrorGroup[] {
  const groups = new Map<string, TaskInfo[]>();
  for (const task of tasks) {
    const title = titleOf(messageOf(task));
    const group = groups.get(title);
    if (group === undefined) groups.set(title, [task]);
    else group.push(task);
  }
  return [...groups].map(([title, members]) => groupOf(title, members)).sort((a, b) => b.tasks.length - a.tasks.length);
}

const messageOf = ({ failures }: TaskInfo): string | undefined => failures.at(-1)?.error?.message;

const titleOf = (message: string | undefined): string => message?.replace(VARIES, '…') ?? EXPIRED;

function groupOf(title: string, tasks: readonly TaskInfo[]): ErrorGroup {
  const times = tasks.map(({ failures }) => failures.at(-1)?.failedUnixMs ?? 0);
  const labels = tasks.map(({ failures }) => failures.at(-1)?.workerLabel ?? '').filter((label) => label !== '');
  return {
    title,
    common: commonText(
      tasks.map((task) => messageOf(task) ?? ''),
      title,
    ),
    tasks,
    firstMs: times.reduce((least, time) => Math.min(least, time), Number.POSITIVE_INFINITY),
    lastMs: times.reduce((most, time) => Math.max(most, time), 0),
    workers: [...new Set(labels)],
  };
}

/** The whole message if all have the same, otherwise the longest part of it that does not differ. */
function commonText(messages: readonly string[], title: string): string {
  const [first = '', ...rest] = messages;
  if (rest.every((message) => message === first)) return cutToBytes(first);
  const parts = title.split('…').map((part) => part.trim());
  return cutToBytes(parts.reduce((longest, part) => (part.length > longest.length ? part : longest), ''));
}

function cutToBytes(text: string): string {
  // A character has a byte at least. Without this, a long text would be encoded thousands of times.
  let cut = text.slice(0, MOST_BYTES);
  while (new TextEncoder().encode(cut).length > MOST_BYTES) cut = cut.slice(0, -1);
  return cut.isWellFormed() ? cut : cut.slice(0, -1);
}
