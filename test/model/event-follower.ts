import type { CountsReply, HistoryEvent, UpdateCall } from '@taskmaster/cli/testing/history';
import type { Engine } from '@taskmaster/engine';
import { EventFilter, eventsReply, parsePosition, Refusal } from '@taskmaster/engine/domain';
import { EventKind, parseQueueName, type Event as WireEvent } from '@taskmaster/proto';

/** Longer than a run. */
const WAIT_MS = 24 * 3600 * 1000;
const REST_MS = 100;
/** Events of a page when a reader resumes. */
const FEW = 3;
const ANY_PID = '*';

/** All queues of scenarios. */
const PATTERNS = ['g#*', '*'] as const;

type Kind = keyof typeof EventKind;
const kindNames = new Map(Object.entries(EventKind).map(([name, kind]) => [kind, name as Kind]));
const kindOf = ({ kind }: WireEvent): Kind => kindNames.get(kind) ?? 'UNRECOGNIZED';
const pidText = (pid: Uint8Array): string => Buffer.from(pid).toString('latin1');
const nameOf = (queue: string, pid: string): string => `${queue} ${JSON.stringify(pid)}`;
const show = (event: WireEvent): string =>
  `${kindOf(event)} ${nameOf(event.queue, pidText(event.pid))} at ${event.position}`;

/** Follows the events of all groups of a run, over its crashes, and compares them with the replies to the callers. */
export class EventFollower {
  readonly #groups = PATTERNS.map((pattern) => new GroupFollower(pattern));

  /** Follows an engine from now on, or on from where it was. One that has crashed answers nothing more. */
  follow(engine: Engine, sleep: (ms: number) => Promise<void>): Promise<unknown> {
    return Promise.all(this.#groups.map((group) => group.follow(engine, sleep)));
  }

  /** Faults if the events tell of other tasks than these. Call it when nothing changes. */
  differences(counts: readonly CountsReply[]): string[] {
    return this.#groups.flatMap((group) => group.differences(counts));
  }

  /** Faults of readers that resume at some positions. */
  async resumed(engine: Engine, seed: number): Promise<string[]> {
    const faults: string[] = [];
    for (const group of this.#groups) faults.push(...(await group.resumed(engine, seed)));
    return faults;
  }

  /** Faults of the events so far. `mayMiss`: the disk was full for a while, and a crash may have lost that a group is read. */
  faults(history: readonly HistoryEvent[], mayMiss: boolean): string[] {
    const bounds = new Bounds(history);
    return this.#groups.flatMap((group) => group.faults(bounds, mayMiss));
  }
}

class GroupFollower {
  readonly #pattern: string;
  readonly #events: WireEvent[] = [];
  /** By queue and PID: whether it is leased. */
  readonly #tasks = new Map<string, { readonly queue: string; readonly isLeased: boolean }>();
  readonly #faults: string[] = [];
  #position = '';
  #hasMissed = false;
  #engine: Engine | undefined;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  /** Resolves when it has read once. */
  async follow(engine: Engine, sleep: (ms: number) => Promise<void>): Promise<void> {
    this.#engine = engine;
    if (this.#position === '') await this.#read(engine, 0);
    void this.#goOn(engine, sleep);
  }

  async #goOn(engine: Engine, sleep: (ms: number) => Promise<void>): Promise<void> {
    while (this.#engine === engine) {
      // While the engine recovers from a full disk, or stops, it reads nothing.
      if (!(await this.#read(engine, WAIT_MS))) await sleep(REST_MS);
    }
  }

  async #read(engine: Engine, waitMs: number): Promise<boolean> {
    const page = await pageOf(engine, this.#pattern, this.#position, waitMs);
    if (page === undefined) return false;
    for (const event of page.events) this.#note(event);
    this.#position = page.position;
    return true;
  }

  differences(counts: readonly CountsReply[]): string[] {
    if (this.#hasMissed) return [];
    const told = new Map<string, number>();
    for (const { queue } of this.#tasks.values()) told.set(queue, (told.get(queue) ?? 0) + 1);
    const there = counts.filter(({ queue }) => this.#isOf(queue)).map((of) => [of.queue, sizeOf(of)] as const);
    const [toldText, thereText] = [[...told], there].map((sizes) =>
      sizes
        .filter(([, size]) => size > 0)
        .sort()
        .join(),
    );
    return toldText === thereText ? [] : [`the events tell of tasks in ${toldText}; there are ${thereText}`];
  }

  #isOf(queue: string): boolean {
    return parseQueueName(queue).group === parseQueueName(this.#pattern).group;
  }

  async resumed(engine: Engine, seed: number): Promise<string[]> {
    const { length } = this.#events;
    const faults: string[] = [];
    for (const index of new Set(length === 0 ? [] : [0, seed % length, length - 1])) {
      let after = this.#events[index]?.position ?? '';
      const read: WireEvent[] = [];
      for (;;) {
        const page = await pageOf(engine, this.#pattern, after, 0, FEW);
        if (page === undefined || page.events.length === 0) break;
        after = page.position;
        read.push(...page.events);
      }
      // The log may not keep all over a crash.
      const isCut = read[0]?.kind === EventKind.EVENT_KIND_MISSED;
      const from = isCut ? (read.shift()?.position ?? '') : '';
      const rest = this.#events.slice(index + 1).filter(({ position }) => !isCut || isBehind(position, from));
      // The follower hears a little later of what happens meanwhile.
      const [got, expected] = [read.slice(0, rest.length), rest].map((events) => events.map(show).join(', '));
      if (got !== expected)
        faults.push(`a reader behind event ${index} of ${this.#pattern} got ${got} for ${expected}`);
    }
    return faults;
  }

  faults(bounds: Bounds, mayMiss: boolean): string[] {
    if (this.#hasMissed) return mayMiss ? [] : [`a reader of ${this.#pattern} has missed events`];
    const found = [...this.#faults];
    const counted = new Map<string, number>();
    for (const event of this.#events) {
      const key = boundKey(kindOf(event), event.queue, pidText(event.pid));
      counted.set(key, (counted.get(key) ?? 0) + 1);
    }
    // Not each lease has a reply: the task may go while its payload is read.
    const leases = new Set(this.#events.filter(({ kind }) => kind === EventKind.EVENT_KIND_LEASED).map(leaseOf));
    for (const lease of bounds.leases) {
      if (this.#isOf(lease.slice(0, lease.indexOf(' '))) && !leases.has(lease))
        found.push(`no event tells of ${lease}`);
    }
    for (const [key, count] of counted) {
      const most = bounds.most(key);
      if (count > most) found.push(`${count} events ${key}; the calls explain ${most}`);
    }
    for (const [key, { queue, least }] of bounds.least) {
      const count = counted.get(key) ?? 0;
      if (this.#isOf(queue) && count < least) found.push(`${count} events ${key}; replies told of ${least}`);
    }
    return found;
  }

  #note(event: WireEvent): void {
    const { kind, queue, toQueue } = event;
    if (kind === EventKind.EVENT_KIND_MISSED) {
      this.#hasMissed = true;
      return;
    }
    const last = this.#events.at(-1);
    if (last !== undefined && !isBehind(event.position, last.position)) this.#fault('does not follow', event);
    this.#events.push(event);
    const pid = pidText(event.pid);
    const name = nameOf(queue, pid);
    const task = this.#tasks.get(name);
    switch (kind) {
      case EventKind.EVENT_KIND_ENQUEUED:
        if (task !== undefined) this.#fault('a task that is there', event);
        this.#tasks.set(name, { queue, isLeased: false });
        return;
      case EventKind.EVENT_KIND_LEASED:
        if (task?.isLeased !== false) this.#fault('a task that is leased or not there', event);
        this.#tasks.set(name, { queue, isLeased: true });
        return;
      case EventKind.EVENT_KIND_FAILED:
      case EventKind.EVENT_KIND_RELEASED:
        if (task?.isLeased !== true) this.#fault('a task that is not leased', event);
        this.#tasks.set(name, { queue, isLeased: false });
        return;
      case EventKind.EVENT_KIND_QUEUE_DELETED: {
        const gone = [...this.#tasks].filter(([, other]) => other.queue === queue);
        if (event.tasks !== gone.length) this.#fault(`${event.tasks} tasks, not ${gone.length}`, event);
        for (const [other] of gone) this.#tasks.delete(other);
        return;
      }
      case EventKind.EVENT_KIND_COMPLETED:
      case EventKind.EVENT_KIND_CANCELLED:
      case EventKind.EVENT_KIND_REMOVED:
      case EventKind.EVENT_KIND_DEAD_LETTERED:
      case EventKind.EVENT_KIND_MOVED:
        if (!this.#tasks.delete(name)) this.#fault('an end of a task that is not there', event);
        if (toQueue !== '') this.#tasks.set(nameOf(toQueue, pidText(event.toPid)), { queue: toQueue, isLeased: false });
        return;
      default:
        if (pid !== '' && task === undefined) this.#fault('a task that is not there', event);
    }
  }

  #fault(what: string, event: WireEvent): void {
    this.#faults.push(`an event tells of ${what}: ${show(event)}`);
  }
}

/** Which events the calls of a run explain. */
class Bounds {
  /** By event: how many there must be. */
  readonly least = new Map<string, { readonly queue: string; readonly least: number }>();
  /** The leases of all replies. */
  readonly leases = new Set<string>();
  readonly #most = new Map<string, number>();

  constructor(history: readonly HistoryEvent[]) {
    const told = new Set<string>();
    for (const { id, call, outcome } of history) {
      if (call.kind === 'lease' && outcome.kind === 'leased') {
        for (const { queue, pid, token, attempt } of outcome.tasks)
          this.leases.add(leaseText(queue, pid, token, attempt));
      }
      if (outcome.kind === 'refused') continue;
      if (call.kind === 'delete') this.#allow('EVENT_KIND_QUEUE_DELETED', call.queue, '');
      if (call.kind === 'pause') {
        this.#allow(call.isResume ? 'EVENT_KIND_RESUMED' : 'EVENT_KIND_PAUSED', call.queues, '');
      }
      if (call.kind !== 'update') continue;
      this.#allowUpdate(call);
      const request = call.requestId ?? String(id);
      for (const [at, { queue, pid, key }] of call.enqueue.entries()) {
        // It may give the task with the key another PID.
        if (key !== undefined) this.#allow('EVENT_KIND_MOVED', queue, ANY_PID);
        const reply = outcome.kind === 'updated' ? outcome.enqueued[at] : undefined;
        if (reply === undefined) this.#allow('EVENT_KIND_ENQUEUED', queue, pid ?? ANY_PID);
        // What is dropped at once has both a beginning and an end.
        if (reply?.result !== 'created' && reply?.result !== 'dropped') continue;
        this.#allow('EVENT_KIND_ENQUEUED', queue, reply.pid);
        // A repetition of the request gets the same reply.
        if (!told.has(`${request} ${at}`)) this.#demand('EVENT_KIND_ENQUEUED', queue, reply.pid);
        told.add(`${request} ${at}`);
      }
    }
  }

  most(key: string): number {
    const [kind = '', queue = ''] = key.split(' ');
    if (!BOUNDED.has(kind as Kind)) return Number.POSITIVE_INFINITY;
    return (this.#most.get(key) ?? 0) + (this.#most.get(boundKey(kind as Kind, queue, ANY_PID)) ?? 0);
  }

  #allowUpdate({ dequeue, renew }: UpdateCall): void {
    for (const { queue, pid, key, token, result, requeue = false, cancel = false } of dequeue) {
      const isCompletion = token !== undefined || result !== undefined;
      const kind = requeue ? 'MOVED' : cancel ? 'CANCEL_REQUESTED' : isCompletion ? 'COMPLETED' : 'REMOVED';
      this.#allow(`EVENT_KIND_${kind}`, queue, key === undefined ? pid : ANY_PID);
    }
    for (const { queue, pid, progress = '' } of renew) {
      if (progress !== '') this.#allow('EVENT_KIND_PROGRESSED', queue, pid);
    }
  }

  #allow(kind: Kind, queue: string, pid: string): void {
    const key = boundKey(kind, queue, pid);
    this.#most.set(key, (this.#most.get(key) ?? 0) + 1);
  }

  #demand(kind: Kind, queue: string, pid: string): void {
    const key = boundKey(kind, queue, pid);
    this.least.set(key, { queue, least: (this.least.get(key)?.least ?? 0) + 1 });
  }
}

/** Events that only calls cause. */
const BOUNDED: ReadonlySet<Kind> = new Set<Kind>([
  'EVENT_KIND_ENQUEUED',
  'EVENT_KIND_COMPLETED',
  'EVENT_KIND_REMOVED',
  'EVENT_KIND_CANCEL_REQUESTED',
  'EVENT_KIND_PROGRESSED',
  'EVENT_KIND_MOVED',
  'EVENT_KIND_QUEUE_DELETED',
  'EVENT_KIND_PAUSED',
  'EVENT_KIND_RESUMED',
]);

const boundKey = (kind: Kind, queue: string, pid: string): string =>
  pid === ANY_PID ? `${kind} ${queue} ${ANY_PID}` : `${kind} ${nameOf(queue, pid)}`;

/** The lease token is the ticket of the change, which positions have, too. */
const leaseText = (queue: string, pid: string, token: number, attempt: number): string =>
  `${nameOf(queue, pid)} leased with token ${token} for attempt ${attempt}`;

const leaseOf = ({ queue, pid, position, attempts }: WireEvent): string =>
  leaseText(queue, pidText(pid), parsePosition(position)?.ticket ?? 0, attempts);

const sizeOf = ({ available, leased, delayed }: CountsReply): number => available + leased + delayed;

function isBehind(position: string, other: string): boolean {
  const [a, b] = [parsePosition(position), parsePosition(other)];
  if (a === undefined || b === undefined) return false;
  if (a.ticket !== b.ticket) return a.ticket > b.ticket;
  return b.count !== 0 && (a.count === 0 || a.count > b.count);
}

/** Undefined: the engine cannot read now. */
async function pageOf(engine: Engine, pattern: string, after: string, waitMs: number, most = 1_000) {
  const queues = parseQueueName(pattern);
  const filter = new EventFilter(queues, undefined, {});
  try {
    const command = { group: queues.group, after: parsePosition(after), filter, most, waitMs };
    const { events, position } = eventsReply(await engine.readEvents(command));
    return { events, position };
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}
