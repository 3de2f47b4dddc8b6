import type { Engine } from '@taskmaster/engine';
import type { SimCluster } from '@taskmaster/node/testing';
import {
  EventKind,
  encodeToBuffer,
  formatQueueName,
  ReadEventsRequest,
  ReadEventsResponse,
  type Event as WireEvent,
} from '@taskmaster/proto';
import type { Way } from '../calls/client.ts';
import { GROUPS } from '../calls/workload.ts';
import { OperatorCalls } from './operator-calls.ts';

const WAIT_MS = 2_000;
const REST_MS = 100;
/** Enough pages for all events of a run. */
const MOST_PAGES = 10_000;
const EVERY_QUEUE = 1_000;

export interface EventReadersDeps {
  readonly cluster: SimCluster;
  readonly sleep: (ms: number) => Promise<void>;
  /** Called for each attempt. */
  readonly way: () => Way;
  readonly trace: (line: () => string) => void;
}

/**
 * A reader of the events of each group during the faults. What it was told must be what is there in the end, also where it was
 * told that it may have missed something: then it lists the tasks and goes on.
 */
export class EventReaders {
  readonly #deps: EventReadersDeps;
  readonly #readers: readonly GroupReader[];
  #stopping = false;
  #reading: Promise<unknown> | undefined;

  constructor(deps: EventReadersDeps) {
    this.#deps = deps;
    this.#readers = GROUPS.map((group) => new GroupReader(group, deps));
  }

  /** Call it when the first node serves. */
  start(): void {
    this.#reading = Promise.all(this.#readers.map((reader) => this.#follow(reader)));
    // `stop` reports its rejection.
    this.#reading.catch(() => {});
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#reading;
  }

  /** Violations in a settled cluster in which nothing changes but by itself. */
  async violations(): Promise<string[]> {
    const { cluster } = this.#deps;
    const violations: string[] = [];
    for (const reader of this.#readers) {
      let there: string;
      // A lease may end while it looks.
      do {
        there = await cluster.run(reader.look());
        await cluster.run(reader.catchUp());
      } while ((await cluster.run(reader.look())) !== there);
      if (reader.told !== there) {
        violations.push(
          `(n) the events of ${reader.group} tell of ${reader.told || 'nothing'}; there is ${there || 'nothing'}`,
        );
      }
    }
    return violations;
  }

  async #follow(reader: GroupReader): Promise<void> {
    while (!this.#stopping) {
      const isAnswered = await reader.read(WAIT_MS);
      if (!isAnswered) await this.#deps.sleep(REST_MS);
    }
  }
}

/** Keeps what the events of one group tell: its tasks by queue and PID. */
class GroupReader {
  readonly group: string;
  readonly #deps: EventReadersDeps;
  readonly #calls: OperatorCalls;
  readonly #tasks = new Set<string>();
  #position = '';
  /** True: it has to list the tasks, because it does not know the earlier events. */
  #isBehind = true;

  constructor(group: string, deps: EventReadersDeps) {
    this.group = group;
    this.#deps = deps;
    this.#calls = new OperatorCalls(deps);
  }

  /** All tasks that it knows of. */
  get told(): string {
    return [...this.#tasks].toSorted().join(', ');
  }

  /** False: no answer came. */
  async read(waitMs: number): Promise<boolean> {
    // The first time without a wait, so that it lists behind its position.
    const request = {
      queues: `${this.group}#*`,
      after: this.#position,
      kinds: [],
      task: undefined,
      maxEvents: 0,
      waitMs: this.#position === '' ? 0 : waitMs,
    };
    const reply = await this.#calls.once('ReadEvents', encodeToBuffer(ReadEventsRequest, request));
    if (reply === undefined) return false;
    const { events, position } = ReadEventsResponse.decode(reply);
    for (const event of events) this.#note(event);
    if (position !== '') this.#position = position;
    if (this.#isBehind && this.#position !== '') await this.#list();
    return true;
  }

  /** Reads all that is there. */
  async catchUp(): Promise<void> {
    for (let page = 0; page < MOST_PAGES; page++) {
      const before = this.#position;
      if ((await this.read(0)) && !this.#isBehind && this.#position === before) return;
    }
    throw new Error(`the events of ${this.group} have no end`);
  }

  /** The tasks that are there, as `told` says them. */
  async look(): Promise<string> {
    const engine = this.#deps.cluster.holderOf(this.group)?.h.engine;
    if (engine === undefined) throw new Error(`no node holds ${this.group}`);
    return [...(await tasksIn(engine, this.group))].toSorted().join(', ');
  }

  async #list(): Promise<void> {
    const engine = this.#deps.cluster.holderOf(this.group)?.h.engine;
    // A node that crashes meanwhile answers nothing.
    const late = this.#deps.sleep(WAIT_MS).then(() => undefined);
    const there = engine && (await Promise.race([tasksIn(engine, this.group).catch(() => undefined), late]));
    if (there === undefined) return;
    this.#tasks.clear();
    for (const task of there) this.#tasks.add(task);
    this.#isBehind = false;
  }

  /** The list may have what an event tells. */
  #note(event: WireEvent): void {
    const { kind, queue, pid, toQueue, toPid } = event;
    const task = nameOf(queue, pid);
    switch (kind) {
      case EventKind.EVENT_KIND_MISSED:
        this.#deps.trace(() => `the reader of ${this.group} may have missed events before ${event.position}`);
        this.#isBehind = true;
        return;
      case EventKind.EVENT_KIND_ENQUEUED:
        this.#tasks.add(task);
        return;
      case EventKind.EVENT_KIND_QUEUE_DELETED:
        for (const other of [...this.#tasks]) if (other.startsWith(`${queue} `)) this.#tasks.delete(other);
        return;
      case EventKind.EVENT_KIND_COMPLETED:
      case EventKind.EVENT_KIND_CANCELLED:
      case EventKind.EVENT_KIND_REMOVED:
      case EventKind.EVENT_KIND_DEAD_LETTERED:
      case EventKind.EVENT_KIND_MOVED:
        this.#tasks.delete(task);
        if (toQueue !== '') this.#tasks.add(nameOf(toQueue, toPid));
        return;
      default:
        // The list has not found a task that was given back meanwhile.
        if (pid.byteLength > 0) this.#tasks.add(task);
    }
  }
}

const nameOf = (queue: string, pid: Uint8Array): string => `${queue} ${Buffer.from(pid).toString('latin1')}`;

async function tasksIn(engine: Engine, group: string): Promise<Set<string>> {
  const filter = {
    matches: undefined,
    group,
    minAvailable: undefined,
    maxAvailable: undefined,
    minLeased: undefined,
    maxLeased: undefined,
    minDelayed: undefined,
    maxDelayed: undefined,
  };
  const { queues } = await engine.listQueues({ filter, limit: EVERY_QUEUE, after: undefined });
  const tasks = new Set<string>();
  for (const { queue } of queues) {
    // A delay ends without an event, so delayed tasks are looked for first.
    for (const kind of ['delayed', 'leased', 'head'] as const) {
      const found = await engine.peekTasks({ queue, kind, limit: EVERY_QUEUE, includeData: false });
      for (const { pid } of found) tasks.add(`${formatQueueName(queue)} ${pid}`);
    }
  }
  return tasks;
}
