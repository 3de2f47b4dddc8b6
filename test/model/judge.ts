import { type HistoryEvent, showHistory } from '@taskmaster/cli/testing/history';
import { linearize, type Verdict } from './linearize.ts';
import type { Setting } from './rules.ts';
import { RETENTION_MS, type Run } from './run-scenario.ts';
import type { Scenario } from './scenario.ts';

/** Limit of the disk operations of one request: several refills, a search for due tasks, and the commit before them. */
const STEPS_OF_THE_DISK = 40;
/** The default of the engine. */
const REQUEST_WINDOW_MS = 120_000;

/** Compares a run with the model. */
export function judge(scenario: Scenario, run: Run): Verdict {
  return linearize(run.events, settingOf(scenario, run));
}

function settingOf({ disk, jitter, caps, cacheBytes, actions }: Scenario, { events, reboots }: Run): Setting {
  const stalls = actions.reduce((sum, action) => sum + (action.do === 'stall' ? action.ms : 0), 0);
  const pids = new Map<string, Set<string>>();
  const note = (data: string, pid: string): void => void pids.set(data, (pids.get(data) ?? new Set()).add(pid));
  // A task of a lost reply may be known only by its key, because a later enqueue has replaced its payload. The reply to that one
  // may be lost, too: then a look or a lease tells the PID.
  const lost = events.flatMap(({ call, outcome }) =>
    outcome.kind === 'unknown' && call.kind === 'update' ? call.enqueue : [],
  );
  const noteKey = (queue: string, key: string | undefined, pid: string): void => {
    if (key === undefined) return;
    for (const other of lost) if (other.queue === queue && other.key === key) note(other.data, pid);
  };
  const noteSeen = (queue: string, data: string, pid: string): void => {
    note(data, pid);
    for (const one of lost) if (one.queue === queue && one.data === data) noteKey(queue, one.key, pid);
  };
  for (const { call, outcome } of events) {
    if (outcome.kind === 'leased') for (const { queue, data, pid } of outcome.tasks) noteSeen(queue, data, pid);
    if (outcome.kind === 'shown' && (call.kind === 'get' || call.kind === 'peek')) {
      for (const { data, pid } of outcome.tasks) if (data) noteSeen(call.queue, data, pid);
    }
    if (outcome.kind !== 'updated' || call.kind !== 'update') continue;
    for (const [i, { pid }] of outcome.enqueued.entries()) {
      const { queue = '', key, data = '' } = call.enqueue[i] ?? {};
      note(data, pid);
      noteKey(queue, key, pid);
    }
  }
  const told = new Map<string, Extract<HistoryEvent['outcome'], { kind: 'updated' }>>();
  const uses = new Map<string, number>();
  for (const { call, outcome } of events) {
    if (call.kind === 'update' && call.requestId) uses.set(call.requestId, (uses.get(call.requestId) ?? 0) + 1);
    if (call.kind === 'update' && call.requestId && outcome.kind === 'updated') told.set(call.requestId, outcome);
  }
  const enqueuedAt = instantsOfTasks(events);
  const epochAt = (seq: number): number => reboots.filter((reboot) => reboot.seq <= seq).length;
  const besides = new Map<HistoryEvent, readonly HistoryEvent[]>();
  return {
    jitter,
    caps,
    // The model may think that a queue became empty a little earlier than it did.
    retentionMs: RETENTION_MS - 5000,
    requestWindowMs: REQUEST_WINDOW_MS,
    tinyCache: cacheBytes < 100_000,
    mayBeFull: actions.some((action) => action.do === 'space' && action.space === 'none'),
    slackMs: STEPS_OF_THE_DISK * (disk.writeMs + disk.syncMs + disk.readMs) + stalls,
    // A request that is repeated after its window enqueues the same payload again, with a later PID.
    pidBehind: (data, largest) => [...(pids.get(data) ?? [])].sort().find((pid) => pid > largest),
    isRepeated: (requestId) => requestId !== undefined && (uses.get(requestId) ?? 0) > 1,
    toldFor: (requestId) => told.get(requestId),
    enqueuedAt: (data) => enqueuedAt.get(data),
    besides: (event) => {
      let others = besides.get(event);
      if (!others) {
        others = events.filter((other) => other.id !== event.id && overlap(event, other));
        besides.set(event, others);
      }
      return others;
    },
    epochAt,
    // Also what happened by itself behind the last call.
    endBefore: (epoch) => Math.max(0, ...reboots.slice(0, epoch).map(({ crashedAt }) => crashedAt)),
  };
}

/** When tasks were enqueued, by their first payload. */
function instantsOfTasks(events: readonly HistoryEvent[]): Map<string, number> {
  const ambiguous = new Set<string>();
  const firstCalledAt = new Map<string, number>();
  for (const { call, calledAt, endedAt } of events) {
    if (call.kind !== 'update') continue;
    for (const { mode, data } of call.enqueue) {
      const first = firstCalledAt.get(data) ?? calledAt;
      firstCalledAt.set(data, first);
      // A request that is repeated after its window enqueues the same payload again.
      if ((mode !== 'collapse' && mode !== 'fail') || endedAt - first > REQUEST_WINDOW_MS) ambiguous.add(data);
    }
  }
  const instants = new Map<string, number>();
  const note = (data: string | undefined, at: number | undefined): void => {
    // A replacement of the payload does not change the task's age.
    if (data === undefined || at === undefined || ambiguous.has(data)) return;
    // A request that is repeated after its window enqueues the same payload at another instant.
    if ((instants.get(data) ?? at) !== at) ambiguous.add(data);
    else instants.set(data, at);
  };
  for (const { outcome } of events) {
    if (outcome.kind === 'leased') for (const task of outcome.tasks) note(task.data, task.enqueuedAt);
    if (outcome.kind === 'shown') for (const { data, state } of outcome.tasks) note(data, state?.enqueuedAt);
  }
  for (const data of ambiguous) instants.delete(data);
  return instants;
}

const overlap = (a: HistoryEvent, b: HistoryEvent): boolean => a.calledSeq < b.endedSeq && b.calledSeq < a.endedSeq;

/** A report as text: the calls that could not be explained, and the history. */
export function report(run: Run, verdict: Verdict): string {
  const lines = run.faults.map((fault) => `fault: ${fault}`);
  if (verdict.kind === 'impossible') {
    const stuck = verdict.stuckAt.map(({ id }) => `#${id}`).join(', ');
    const explained = verdict.explained.map(({ id }) => `#${id}`).join(' ');
    lines.push(`no order explains the replies; explained at best: ${explained}`, `then none of these fits: ${stuck}`);
  }
  // Later events do not help to explain the failure.
  const end = verdict.kind === 'impossible' ? Math.max(...verdict.stuckAt.map(({ endedSeq }) => endedSeq)) : Infinity;
  return [...lines, showHistory(run.events.filter(({ calledSeq }) => calledSeq < end))].join('\n');
}
