import { type Admission, grows } from '../admission.ts';
import type { RecordedRequest } from '../domain/atom.ts';
import { batchOfOne, onlyOutcome } from '../domain/batches.ts';
import type { BatchCommand, BatchOutcome, EngineHealth, UpdateCommand, UpdateOutcome } from '../domain/commands.ts';
import type { Instant, PartitionId } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import type { EngineState } from '../engine-state.ts';
import { EngineView } from '../pending/engine-view.ts';
import type { OrderNeed, Reads } from '../pending/reads.ts';
import type { Queue } from '../queues/queue.ts';
import { decodeOutcome, encodeOutcome } from '../requests/outcome-codec.ts';
import { fingerprintOf } from '../requests/request-fingerprint.ts';
import type { RequestKnowledge } from '../requests/request-ids.ts';
import { expandPublishes, type PublishRules, publishedWeight } from '../topics/expand-publishes.ts';
import { capBacklogs, dropOldest, OldestTasks } from './backlog.ts';
import { type Attempt, type Changes, type Decided, decide, decideNow, isTooLarge } from './decide.ts';
import { DueSearches, showAllDue } from './expire.ts';
import { beforeNewWaits } from './keys/sweep-keys.ts';
import { objectionByLimits } from './limits.ts';
import { type BatchPlan, type Objection, type PlannedUpdate, planBatch } from './plan-update.ts';

/** What updates need of their engine. */
interface UpdatesDeps {
  readonly admission: Admission;
  readonly health: () => EngineHealth;
  /** Throws a `Refusal` while nothing can be written. */
  readonly writable: () => EngineState;
  /** Counts a refusal. */
  readonly refused: (error: unknown) => Refusal;
}

/** The updates of callers. */
export class Updates {
  readonly #deps: UpdatesDeps;

  constructor(deps: UpdatesDeps) {
    this.#deps = deps;
  }

  apply(command: UpdateCommand): Promise<UpdateOutcome> {
    return this.applyBatch(batchOfOne(command)).then(onlyOutcome);
  }

  /** The outcome of several updates with a request id is final: a repetition gets the same, also the refusals. */
  async applyBatch(batch: BatchCommand): Promise<BatchOutcome> {
    const { admission, health, writable, refused } = this.#deps;
    try {
      const engineState = writable();
      // Counted before anything is made of them: a small request may become a thousand tasks.
      const published = batch.publishes
        ? publishedWeight(batch, publishRules(engineState), engineState.clock.now())
        : 0;
      const { bytes, noNewTasks } = admission.enterUpdates(batch, health(), published);
      try {
        const outcome = await updateTasks(engineState, batch, noNewTasks);
        for (const refusal of outcome.refusals.values()) refused(refusal);
        return outcome;
      } finally {
        admission.leave(bytes);
      }
    } catch (error) {
      throw refused(error);
    }
  }
}

/** The decision on a batch. It is committed but not durable yet. */
type Decision = { readonly kind: 'decided'; readonly outcome: BatchOutcome } | { readonly kind: 'reused' };

/** What a batch has learnt between its attempts, beside its reads. */
interface Learnt {
  /** Queues that were asked for dead tasks. */
  readonly asked: Set<Queue>;
  readonly searches: DueSearches;
  readonly oldest: OldestTasks;
  /** What the store knows of the request id. Undefined: it was not asked. */
  request: RequestKnowledge | undefined;
  /** How many of its updates are decided at once. */
  most: number;
}

const nothing = (): Learnt => ({
  asked: new Set(),
  searches: new DueSearches(),
  oldest: new OldestTasks(),
  request: undefined,
  most: Number.POSITIVE_INFINITY,
});
const NOTHING: Readonly<Learnt> = nothing();

/**
 * UpdateTasks (the paper, 4) for independent updates of one group: one atom for all that are not refused, and one record of the
 * request id. Nearly all batches are decided by the first attempt, because they need no read and no wait.
 * @param noNewTasks refuses the updates that enqueue and, on a full disk, those that leave results. Undefined: there is room.
 */
export async function updateTasks(
  engineState: EngineState,
  batch: BatchCommand,
  noNewTasks?: Refusal,
): Promise<BatchOutcome> {
  const { partition, latin1 } = engineState.groups.get(batch.group);
  const request = batch.requestId === undefined ? undefined : `${latin1}\0${batch.requestId}`;
  const update: Update = { engineState, batch, partition, request, noNewTasks };
  const { result: decision, durable } =
    decideNow(engineState, partition, (now) => attempt(update, now, NOTHING)) ?? (await later(update));
  // A refusal also waits: a task that it reports as missing must not reappear after a crash.
  await durable;
  if (decision.kind === 'reused') {
    throw new Refusal('REQUEST_ID_REUSED', 'the request id was used for a different request before');
  }
  return decision.outcome;
}

async function later(update: Update): Promise<Decided<Decision>> {
  const { engineState, partition, request } = update;
  using _held = request === undefined ? undefined : engineState.requests.hold(request);
  const learnt = nothing();
  for (;;) {
    try {
      return await decide(engineState, partition, (now, reads) => attempt(update, now, learnt, reads));
    } catch (error) {
      const count = Math.min(learnt.most, update.batch.updates.length);
      if (count <= 1 || !isTooLarge(error)) throw error;
      // What is left is refused for this turn only.
      learnt.most = Math.ceil(count / 2);
    }
  }
}

/**
 * Queues whose due tasks must be shown before the batch is decided, except those that were asked for them: their dead tasks may
 * belong into queues of the batch.
 */
function sourcesOf(engineState: EngineState, batch: BatchCommand, asked: ReadonlySet<Queue>): readonly Queue[] {
  const { lastAttempts, clock } = engineState;
  const { group, enqueue, dequeue, renew, release } = batch;
  if (!lastAttempts.anyInto(group)) return NO_QUEUES;
  const now = clock.now();
  const sources = new Set<Queue>();
  for (const items of [enqueue, dequeue, renew, release]) {
    let last: string | undefined;
    for (const { queue } of items) {
      // Most items in a row name the same queue.
      if (queue.name === last) continue;
      last = queue.name;
      for (const source of lastAttempts.into(queue, now)) if (!asked.has(source)) sources.add(source);
    }
  }
  return [...sources];
}

const publishRules = ({ subscriptions, config }: EngineState): PublishRules => ({
  subscribers: subscriptions,
  maxInFlightBytes: config.maxInFlightBytes,
});

interface Update {
  readonly engineState: EngineState;
  readonly batch: BatchCommand;
  readonly partition: PartitionId;
  /** The request id with its group, because a partition holds many groups. */
  readonly request: string | undefined;
  readonly noNewTasks: Refusal | undefined;
}

function attempt(update: Update, now: Instant, learnt: Learnt, reads?: Reads): Attempt<Decision> {
  const { engineState, partition, request } = update;
  const expansion = update.batch.publishes ? expandPublishes(update.batch, publishRules(engineState), now) : undefined;
  const batch = expansion?.batch ?? update.batch;
  const sources = sourcesOf(engineState, batch, learnt.asked);
  if (sources.length > 0) return { kind: 'waits', wait: () => askForDead(engineState, sources, learnt) };
  const tell = engineState.mayHaveDeleted ? beforeNewWaits(engineState, batch.group) : undefined;
  if (tell !== undefined && batch.enqueue.some(({ waitFor }) => waitFor !== undefined))
    return { kind: 'waits', wait: tell };
  if (request !== undefined) {
    const known = engineState.requests.lookUp(partition, request, now);
    const seen = known.kind === 'unknown' ? learnt.request : known;
    if (seen === undefined) return { kind: 'waits', wait: () => askForRequest(update, request, learnt) };
    if (seen.kind === 'seen') return { kind: 'decided', result: repeat(update.batch, seen.outcome) };
  }
  const view = new EngineView(engineState, now, reads, learnt.searches.notShown);
  const objectionTo = (planned: Readonly<PlannedUpdate>): Objection | undefined => {
    const tooMuch = expansion?.refusals.get(planned.end);
    if (tooMuch !== undefined) return tooMuch;
    const { start, end } = planned;
    const isFull = update.noNewTasks?.reason === 'DISK_FULL';
    if (!grows(batch, start, end, isFull)) return undefined;
    if (update.noNewTasks !== undefined) return update.noNewTasks;
    return objectionByLimits(engineState, batch, planned, view) ?? capBacklogs(batch.enqueue, planned, view);
  };
  const orders = unknownOrders(batch, view);
  if (orders.length > 0) return { kind: 'needs', needs: orders };
  const plan = planBatch(batch, view, objectionTo, learnt.most);
  if (plan.kind === 'needs') return plan;
  if (plan.kind === 'due') return { kind: 'waits', wait: () => learnt.searches.show(engineState, plan.queues) };
  const missing = dropOldest(plan.draft, now, learnt.oldest, batch.enqueue);
  if (missing !== undefined) return { kind: 'waits', wait: () => learnt.oldest.read(engineState, missing) };
  plan.draft.writeBoxes(now);
  const { needs } = plan.draft;
  if (needs.length > 0) return { kind: 'needs', needs };
  const outcome = expansion?.fold(plan.outcome) ?? plan.outcome;
  const result: Decision = { kind: 'decided', outcome };
  return { kind: 'decided', result, changes: changesOf(update, { ...plan, outcome }) };
}

/** Order keys of new tasks whose last tasks must be read. They are found first, because a plan without them would be in vain. */
function unknownOrders({ enqueue }: BatchCommand, view: EngineView): readonly OrderNeed[] {
  let needs: OrderNeed[] | undefined;
  // Without an iterator, because most updates have one item and no order key (bench row B3).
  for (let at = 0; at < enqueue.length; at++) {
    const { queue: name, links } = enqueue[at] ?? {};
    const orderKey = links?.orderKey;
    if (name === undefined || orderKey === undefined) continue;
    const queue = view.queue(name);
    if (queue === undefined || view.lastInOrder(queue, orderKey) !== undefined) continue;
    needs ??= [];
    needs.push({ queue, orderKey });
  }
  return needs ?? NO_NEEDS;
}

const NO_NEEDS: readonly OrderNeed[] = [];

async function askForDead(engineState: EngineState, sources: readonly Queue[], { asked }: Learnt): Promise<void> {
  for (const queue of sources) asked.add(queue);
  await showAllDue(engineState, sources);
}

async function askForRequest({ engineState, partition }: Update, request: string, learnt: Learnt): Promise<void> {
  learnt.request = await engineState.requests.read(partition, request, engineState.clock.now());
}

const NO_QUEUES: readonly Queue[] = [];

/**
 * Undefined: nothing changes. The request id of an update whose enqueues all collapsed is recorded nevertheless. The refusal of
 * a single update is not, because a repetition may succeed. Refusals among several updates are, so that all results are final.
 */
function changesOf(
  { batch, request: id }: Update,
  { outcome, draft }: Extract<BatchPlan, { kind: 'planned' }>,
): Changes | undefined {
  const { changes, created } = draft;
  if (id === undefined) return changes.length === 0 ? undefined : { changes, created };
  if (batch.updates.length === 1 && outcome.refusals.size > 0) return undefined;
  const request: RecordedRequest = { id, outcome: encodeOutcome(fingerprintOf(batch), outcome) };
  return { changes, created, request };
}

function repeat(batch: BatchCommand, recorded: string): Decision {
  const outcome = decodeOutcome(recorded, fingerprintOf(batch), batch);
  return outcome === undefined ? { kind: 'reused' } : { kind: 'decided', outcome };
}
