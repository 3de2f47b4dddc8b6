import { type ClientOptions, clientOver, pidText, type TaskMasterClient, type Transport } from '@taskmaster/client';
import { ManualTiming } from '@taskmaster/client/testing';
import { type Engine, type EngineConfig, MemoryStore, openEngine } from '@taskmaster/engine';
import type { EngineFigures, Instant } from '@taskmaster/engine/domain';
import type { CancelTimer, Clock } from '@taskmaster/engine/ports';
import { keptLog } from '@taskmaster/engine/testing';
import { createHandlers, InProcessTransport } from '@taskmaster/node/testing';
import { type LeaseTasksRequest, limits, methods, PeekKind, type UpdateTasksRequest } from '@taskmaster/proto';
import { FaultyTransport } from './faulty-transport.ts';

/** What a test sees of the engine. */
interface EngineLooks {
  /** All updates that arrived, also refused ones. */
  readonly updates: UpdateTasksRequest[];
  /** All lease requests that arrived. */
  readonly leases: LeaseTasksRequest[];
  /** PIDs of a queue as text, in order. */
  pids(queue: string): Promise<string[]>;
  /** Among them the number of requests that wait. */
  figures(): Promise<EngineFigures>;
  /** What is behind the checks of requests. */
  readonly opened: Promise<Engine>;
  /** A way to the engine without faults. What goes this way is not recorded. */
  readonly direct: Promise<Transport>;
}

export interface ClientSetUp {
  readonly client: TaskMasterClient;
  readonly timing: VirtualTiming;
  readonly transport: FaultyTransport;
  readonly engine: EngineLooks;
}

/** After this many turns of the event loop without a call that begins or ends, client and engine wait. */
const TURNS = 10;

/** One time for a client and its engine, which a test advances. */
export class VirtualTiming extends ManualTiming {
  /** To be called when a call to the engine begins or ends. */
  readonly onCall = (): void => {
    this.#hasCalled = true;
  };
  #hasCalled = true;
  #ofEngine = 0;
  #opening: Promise<unknown> = Promise.resolve();

  constructor() {
    super(Date.UTC(2026, 0, 1));
  }

  /** Time waits until the engine is open. */
  waitFor(engine: Promise<unknown>): void {
    this.#opening = Promise.all([this.#opening, engine]);
  }

  /** Number of waiting timers, without those of engines. */
  override get timers(): number {
    return super.timers - this.#ofEngine;
  }

  /** As `after`, for an engine. */
  afterInEngine(delayMs: number, callback: () => void): () => void {
    let isWaiting = true;
    const end = (): void => {
      if (isWaiting) this.#ofEngine--;
      isWaiting = false;
    };
    const cancel = this.after(delayMs, () => {
      end();
      callback();
    });
    this.#ofEngine++;
    return () => {
      end();
      cancel();
    };
  }

  override async settled(): Promise<void> {
    await this.#opening;
    let left = 1;
    while (left > 0) {
      await new Promise((resolve) => setImmediate(resolve));
      left = this.#hasCalled ? TURNS : left - 1;
      this.#hasCalled = false;
    }
  }
}

/** The clock of an engine on the time of a client. */
function clockOn(timing: VirtualTiming): Clock {
  const now = (): Instant => Math.floor(timing.now()) as Instant;
  const at = (instant: Instant, callback: () => void): CancelTimer => {
    let cancel: CancelTimer = () => {};
    // A timer has a longest delay.
    const arm = (): void => {
      cancel = timing.afterInEngine(instant - timing.now(), () => (now() < instant ? arm() : callback()));
    };
    arm();
    return () => cancel();
  };
  const mark = () => ({ instant: now(), bootId: undefined, uptimeMs: 0 });
  return { now, wall: () => timing.now(), at, mark, resume: () => {} };
}

/** A way to an engine of its own in memory. Random numbers are always a half. It is dropped with the test. */
export function transportSetUp(
  timing: VirtualTiming,
  config: Partial<EngineConfig> = {},
): Pick<ClientSetUp, 'transport' | 'engine'> {
  const random = { next: () => 0.5 };
  const engine = openEngine({ store: new MemoryStore(), clock: clockOn(timing), random, config });
  const direct = engine.then((opened) => transportTo(opened, timing));
  timing.waitFor(direct);
  const transport = new FaultyTransport({ engine: direct, timing, onCall: timing.onCall });
  const pids = async (queue: string): Promise<string[]> => {
    const { PEEK_KIND_HEAD, PEEK_KIND_LEASED, PEEK_KIND_DELAYED } = PeekKind;
    const kinds = [PEEK_KIND_HEAD, PEEK_KIND_LEASED, PEEK_KIND_DELAYED];
    const found = await Promise.all(kinds.map((kind) => pidsOf(direct, queue, kind)));
    return found.flat().toSorted(Buffer.compare).map(pidText);
  };
  const { updateTasks: updates, leaseTasks: leases } = transport.arrived;
  const figures = async (): Promise<EngineFigures> => (await engine).figures();
  return { transport, engine: { updates, leases, pids, figures, opened: engine, direct } };
}

/** A client over an engine in memory, with these settings of the engine. The test advances the time. */
export function clientSetUp(options: ClientOptions = {}, config: Partial<EngineConfig> = {}): ClientSetUp {
  const timing = new VirtualTiming();
  const made = transportSetUp(timing, config);
  const client = clientOver(made.transport, options, { timing, random: () => 0.5 });
  return { client, timing, ...made };
}

function transportTo(engine: Engine, timing: VirtualTiming): Transport {
  const log = keptLog();
  return new InProcessTransport({
    handlers: createHandlers(engine, log),
    backup: (request, signal) => engine.backups.backup(request, signal),
    log,
    timing,
    onCall: timing.onCall,
    close: () => engine.stop(),
  });
}

/** The PIDs of the tasks of this kind. Of leased and of delayed tasks, a node shows no more than one page. */
async function pidsOf(direct: Promise<Transport>, queue: string, kind: PeekKind): Promise<Uint8Array[]> {
  const engine = await direct;
  const found: Uint8Array[] = [];
  for (;;) {
    const page = { queue, kind, limit: limits.peekTasks, includeData: false };
    const { tasks } = await engine.unary(methods.peekTasks, { ...page, afterPid: found.at(-1) ?? Buffer.alloc(0) });
    found.push(...tasks.map(({ pid }) => pid));
    if (tasks.length < page.limit) return found;
  }
}
