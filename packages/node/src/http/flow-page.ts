import { Refusal } from '@taskmaster/engine/domain';
import {
  bytesFromText,
  ChildFailure,
  childRows,
  type FlowAround,
  type FlowTaskName,
  flowAround,
  pidText,
  type TaskInFlow,
  type TaskInfo,
  type TaskSignal,
  TaskState,
} from '@taskmaster/proto';
import type { CallerAccess } from '@taskmaster/server/access';
import type { Reply } from '@taskmaster/server/http';
import { formatCount } from './format.ts';
import { type Html, html } from './html.ts';
import { shownName, shownText } from './name-cell.ts';
import { type PageOptions, type PageParts, pageReply, refusedPart } from './page-frame.ts';

/** The reading of a task with the signals that it has kept, validated like a call over gRPC. */
export interface TaskReads {
  readTask(name: FlowTaskName, withChildren: boolean, access: CallerAccess): Promise<TaskInfo | undefined>;
}

export interface FlowPageOptions extends PageOptions {
  readonly reads: TaskReads;
}

const PATH = '/flow';

/** `GET /flow`: what a task has waited for, what it still waits for, and what waits for it, for people. */
export async function flowPage(options: FlowPageOptions): Promise<Reply> {
  return pageReply(options, { title: 'Flows', filter: form(options.query), ...(await read(options)) });
}

async function read(options: FlowPageOptions): Promise<Pick<PageParts, 'status' | 'content'>> {
  const { reads, access, query } = options;
  const queue = query.get('queue') ?? '';
  const key = query.get('key') ?? '';
  const text = query.get('pid') ?? '';
  if (queue === '' || (key === '' && text === '')) return { status: 200, content: nothingAsked() };
  try {
    const pid = key === '' ? pidOf(text) : new Uint8Array(0);
    const flow = await flowAround((one, children) => reads.readTask(one, children, access), { queue, pid, key });
    return { status: 200, content: flow.tasks[0] === undefined ? nothingAsked() : table(flow) };
  } catch (thrown) {
    return refusedPart(thrown, options, PATH);
  }
}

function pidOf(text: string): Uint8Array {
  try {
    return bytesFromText(text);
  } catch (cause) {
    throw new Refusal('INVALID_ARGUMENT', `pid: ${(cause as Error).message}`, { metadata: { field: 'pid' } });
  }
}

function form(query: URLSearchParams): Html {
  const field = (name: string, title: string): Html =>
    html`<input class="group" id="${name}" name="${name}" value="${query.get(name) ?? ''}" placeholder="${title}" aria-label="${title}" spellcheck="false" autocomplete="off">
`;
  return html`<form method="get" action="${PATH}" role="search">
${field('queue', 'Queue')}${field('pid', 'PID')}${field('key', 'or key')}<button>Show</button>
</form>`;
}

const heads: readonly (readonly [title: string, about: string])[] = [
  ['Task', 'Its PID, or its key if it is not in its queue'],
  ['State', 'A task that is not found has ended, or is not enqueued yet'],
  ['Waits for', 'What it still waits for, beside its time'],
  ['If that fails', 'What happens to it if the task above it is not completed'],
  ['Last error', 'Of its attempts'],
];

function table({ tasks, isCut, unfinished, isUnfinishedCut }: FlowAround): Html {
  const ended = tasks[0]?.task.signals.filter(({ queue }) => queue !== '') ?? [];
  const dropped = tasks[0]?.task.droppedSignals ?? 0;
  const after = Map.groupBy(tasks.keys(), (at) => tasks[at]?.before);
  const { before: children, depth: own } = childRows(
    unfinished.map(({ before }) => before),
    ended.length > 0,
  );
  const rows: Html[] = ended.map((one) => endedRow(one, own - 1));
  for (const { at, depth } of children) {
    const of = unfinished[at];
    if (of !== undefined) rows.push(row(of, depth));
  }
  // A stack: a chain may be long.
  const left = [{ at: 0, depth: own }];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const { at, depth } = next;
    const of = tasks[at];
    if (of === undefined) continue;
    rows.push(row(of, depth));
    left.push(...(after.get(at) ?? []).toReversed().map((child) => ({ at: child, depth: depth + 1 })));
  }
  const columns = heads.map(([title, about]) => html`<th scope="col" title="${about}">${title}</th>`);
  const more = isCut
    ? html`<span>More than ${formatCount(tasks.length)} tasks wait for it; the others are left out.</span>`
    : undefined;
  const lost =
    dropped > 0
      ? html`<span>The ends of ${formatCount(dropped)} more tasks did not fit into what it keeps.</span>`
      : undefined;
  const unlisted = isUnfinishedCut ? html`<span>There may be more tasks for which it waits.</span>` : undefined;
  return html`<div class="table flow"><table>
<thead><tr><th scope="col" title="group#name">Queue</th>${columns}</tr></thead>
<tbody>${rows}</tbody>
</table></div>
<footer>${more}${lost}${unlisted}<span>First come tasks that have ended, if the task collects them, and those for which it waits; then the task, and those that wait for it.</span></footer>`;
}

const indentOf = (depth: number): Html | undefined =>
  depth === 0 ? undefined : html`<span class="group">${'└ '.padStart(2 * depth, '\u00a0')}</span>`;

const endedRow = ({ queue, pid, completed }: TaskSignal, depth: number): Html => {
  const state = completed ? 'completed' : html`<span class="warn">not completed</span>`;
  return html`<tr><td>${indentOf(depth)}<bdi>${shownName(queue)}</bdi></td><td><bdi>${shownText(pidText(pid))}</bdi></td><td>${state}</td><td></td><td></td><td></td></tr>
`;
};

function row({ task, asParent }: TaskInFlow, depth: number): Html {
  const name = task.pid.byteLength === 0 ? `key ${task.key}` : pidText(task.pid);
  const link = new URLSearchParams({
    queue: task.queue,
    ...(task.pid.byteLength === 0 ? { key: task.key } : { pid: name }),
  });
  return html`<tr><td>${indentOf(depth)}<bdi>${shownName(task.queue)}</bdi></td>
<td><a href="${PATH}?${link.toString()}"><bdi>${shownText(name)}</bdi></a></td>
<td>${stateOf(task)}</td><td>${waitsFor(task)}</td><td>${asParent && onFailure[asParent.onFailure]}</td>
<td><bdi>${shownText(errorOf(task))}</bdi></td></tr>
`;
}

const states: Readonly<Record<number, string>> = {
  [TaskState.TASK_STATE_AVAILABLE]: 'available',
  [TaskState.TASK_STATE_LEASED]: 'leased',
  [TaskState.TASK_STATE_DELAYED]: 'delayed',
};

function stateOf({ state, waits }: TaskInfo): Html | string {
  return waits === undefined ? (states[state] ?? html`<span class="warn">not found</span>`) : 'waiting';
}

function waitsFor({ waits }: TaskInfo): string {
  if (waits === undefined) return '';
  const signals = waits.signals === 0 ? [] : [`${formatCount(waits.signals)} signal${waits.signals === 1 ? '' : 's'}`];
  return [...(waits.order ? ['its order'] : []), ...signals].join(', ');
}

const onFailure: Readonly<Record<number, string>> = {
  [ChildFailure.CHILD_FAILURE_FAIL]: 'fails',
  [ChildFailure.CHILD_FAILURE_CONTINUE]: 'goes on',
  [ChildFailure.CHILD_FAILURE_RETRY]: 'waits for the retry',
};

function errorOf({ failures }: TaskInfo): string {
  const last = failures.at(-1);
  return last === undefined ? '' : (last.error?.message ?? 'lease expired');
}

const nothingAsked = (): Html => html`<div class="empty"><h2>The flow of a task</h2>
<p>Name a queue, and a PID or a key. The command line shows the same:</p>
<pre>taskmaster flow 'film#films' film-7</pre></div>`;
