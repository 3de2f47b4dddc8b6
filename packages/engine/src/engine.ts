import type { QueueName } from '@taskmaster/proto';
import { Admission } from './admission.ts';
import { Background } from './background.ts';
import { bulkOperations, runsGoingOn } from './bulk/bulk-operations.ts';
import { Checkpoints } from './checkpoints.ts';
import { CLOCK_LOOK_MS, ClockLog } from './clock-log.ts';
import { DamageLog } from './damage-log.ts';
import type { BulkOperations } from './domain/bulk-runs.ts';
import type { CallSignal } from './domain/call-signal.ts';
import type {
  CallContext,
  EndedTask,
  EngineFigures,
  EngineHealth,
  GetCommand,
  LeaseCommand,
  LeasedTask,
  ListCommand,
  MatchedQueue,
  PeekCommand,
  QueueFilter,
  QueuePage,
  StatsCommand,
  StatsReport,
  TaskView,
  WaitCommand,
} from './domain/commands.ts';
import type { EventPage, ReadEventsCommand } from './domain/events.ts';
import type { LimitOperations } from './domain/queue-limits.ts';
import type { PauseOperations } from './domain/queue-pauses.ts';
import type { SettingsOperations } from './domain/queue-settings.ts';
import { Refusal } from './domain/refusal.ts';
import type { ScheduleEngine } from './domain/schedules/schedule-commands.ts';
import type { TopicOperations } from './domain/topics.ts';
import type { OpenedEngineDeps } from './engine-deps.ts';
import type { EngineState, EngineStateDeps } from './engine-state.ts';
import { LeaseRequests } from './leasing/lease-requests.ts';
import { takeBack } from './leasing/take-back.ts';
import { notReady } from './not-ready.ts';
import { openState } from './open-state.ts';
import { deleteQueue } from './operations/delete-queue.ts';
import { getTasks, peekTasks } from './operations/get-and-peek.ts';
import { listQueues, queueStats } from './operations/queue-stats.ts';
import { Reaper } from './operations/reaper.ts';
import { resetLeases } from './operations/reset-leases.ts';
import { Updates } from './operations/update-tasks.ts';
import { Backups } from './partitions/backup/backups.ts';
import { Partitions } from './partitions/partitions.ts';
import { StoreFullError, StoreLostError, type StoreState } from './ports/store.ts';
import { Counts } from './queues/counts.ts';
import type { LimitedGroup } from './queues/group-usage.ts';
import { Tally } from './queues/tally.ts';
import type { RecordRequests } from './records/change-records.ts';
import { limitOperations } from './records/limit-operations.ts';
import { pauseOperations } from './records/pause-operations.ts';
import { settingsOperations } from './records/settings-operations.ts';
import { scheduleOperations, schedulesIn } from './schedules/schedule-operations.ts';
import { diskFull, lostStore, refusalOf } from './store-refusal.ts';
import { topicOperations } from './topics/topic-operations.ts';
import { TaskWaits } from './waits/task-waits.ts';

const RELOAD_DELAY_MS = 1000;

/**
 * The operations of one node on one store. `openEngine` creates it. A promise resolves after the change is durable. It rejects
 * with a `Refusal` if nothing was changed.
 */
export class Engine {
  readonly #deps: OpenedEngineDeps;
  /** The partitions that this engine holds. Only used in a cluster. */
  readonly partitions: Partitions;
  readonly backups: Backups;
  readonly updates: Updates;
  readonly schedules: ScheduleEngine;
  readonly topics: TopicOperations;
  readonly settings: SettingsOperations;
  readonly pauses: PauseOperations;
  readonly limits: LimitOperations;
  readonly bulkRuns: BulkOperations;
  readonly #counts: Counts;
  readonly #admission: Admission;
  readonly #reaper: Reaper;
  readonly #checkpoints: Checkpoints;
  readonly #background: Background;
  #engineState: EngineState | undefined;
  /** After a failed write: resolves when the state is rebuilt. */
  #rebuilt: PromiseWithResolvers<void> | undefined;
  readonly #damageLog: DamageLog;
  #leaseRequests: LeaseRequests | undefined;
  #taskWaits: TaskWaits | undefined;
  #health: EngineHealth = { kind: 'starting' };
  /** The checkpoint that is being written, or the last one. */
  #checkpoint: Promise<void> = Promise.resolve();
  /** Lease requests without an answer yet, including waiting ones. */
  readonly #leasing = new Tally();
  #stopped: Promise<void> | undefined;

  constructor(deps: OpenedEngineDeps) {
    this.#deps = deps;
    this.#counts = new Counts(deps.onRun);
    this.#admission = new Admission(deps.config);
    this.#damageLog = new DamageLog(deps.log);
    this.#checkpoints = new Checkpoints(deps);
    this.#reaper = new Reaper(deps);
    this.#background = new Background({ ...deps, engineState: () => this.#current(), reaper: this.#reaper });
    this.updates = new Updates({
      admission: this.#admission,
      health: () => this.#health,
      writable: () => this.#writable(),
      refused: (error) => this.#refused(error),
    });
    const requests: RecordRequests = {
      change: (work, addedBytes) => this.#change(work, addedBytes),
      read: (group, work) => this.#readFiltered({ group }, work),
    };
    this.schedules = scheduleOperations(requests);
    this.topics = topicOperations(this.#reaper, {
      ...requests,
      engineState: () => this.#engineState,
      health: () => this.#health,
    });
    this.settings = settingsOperations(requests);
    this.pauses = pauseOperations(requests);
    this.limits = limitOperations(requests);
    this.bulkRuns = bulkOperations(requests);
    this.partitions = new Partitions({
      ...deps,
      engineState: () => this.#engineState,
      writable: () => this.#writable(),
      leaseRequests: () => this.#leaseRequests,
      taskWaits: () => this.#taskWaits,
      checkpoint: () => this.#tick(),
      checkpointed: () => this.#checkpoint.catch(() => {}),
      rebuilt: () => this.#rebuiltMemory(),
      reap: () => this.#reaper.reapAll(),
    });
    const { maxConcurrentBackups, maxBackupBytesPerSecond, requestIdWindowMs } = deps.config;
    this.backups = new Backups({
      partitions: this.partitions,
      clock: deps.clock,
      random: deps.random,
      requestWindowMs: requestIdWindowMs,
      maxConcurrent: maxConcurrentBackups,
      maxBytesPerSecond: maxBackupBytesPerSecond,
    });
  }

  /** Whether requests are served, and the reason if they are not. */
  get health(): EngineHealth {
    return this.#health;
  }

  /** Called once, by `openEngine`. */
  async start(): Promise<void> {
    const { store, config, log, onReplay } = this.#deps;
    if (this.#deps.shared === undefined) await this.partitions.clearLeftovers();
    const { engineState, replayedAtoms } = await openState(this.#memoryDeps(), onReplay);
    log.info({ replayedAtoms, queues: engineState.table.size }, 'recovered');
    this.#engineState = engineState;
    this.#leaseRequests = new LeaseRequests(engineState);
    this.#taskWaits = new TaskWaits(engineState);
    store.onStateChange((state) => this.#onStoreState(state));
    this.#onStoreState(store.state);
    this.#background.every(config.checkpointIntervalMs, () => this.#tick());
    const clockLog = new ClockLog(this.#deps);
    this.#background.every(CLOCK_LOOK_MS, async () => clockLog.look());
    this.#background.start();
    if (config.durability.kind === 'relaxed') {
      this.#background.every(config.durability.flushIntervalMs, () => this.#flush());
    }
    void this.#reaper.reapAll();
  }

  /** Not an async function: 10,000 waiting requests would each keep its frame in memory. */
  leaseTasks(command: LeaseCommand, { signal }: CallContext = {}): Promise<readonly LeasedTask[]> {
    this.#leasing.enter();
    return this.#lease(command, signal).then(
      (leased) => {
        if (signal?.aborted) return this.#takeBack(leased);
        this.#leasing.leave();
        return leased;
      },
      (error: unknown) => {
        this.#leasing.leave();
        throw this.#refused(error);
      },
    );
  }

  /** Queues with available tasks that match the patterns of a lease, and that it does not name. Later calls begin with others. */
  queuesWithTasks(command: LeaseCommand, most: number): readonly MatchedQueue[] {
    return this.#leaseRequests?.queuesWithTasks(command, most) ?? [];
  }

  #lease(command: LeaseCommand, signal: CallSignal | undefined): Promise<LeasedTask[]> {
    try {
      this.#writable();
      const leaseRequests = this.#leaseRequests;
      if (!leaseRequests) throw notReady(this.#health);
      // Waiting requests do not count as in flight: they have a limit of their own.
      if (command.waitMs > 0) return leaseRequests.lease(command, signal);
      this.#admission.enter('new', 0);
      // `run` would cost each lease a frame and two promises (bench row B4).
      try {
        return leaseRequests.lease(command, signal).then(this.#granted, this.#notGranted);
      } catch (error) {
        return this.#notGranted(error);
      }
    } catch (error) {
      return Promise.reject(error);
    }
  }

  readonly #granted = (leased: LeasedTask[]): LeasedTask[] => {
    this.#admission.leave(0);
    return leased;
  };

  readonly #notGranted = (error: unknown): never => {
    this.#admission.leave(0);
    throw error;
  };

  async #takeBack(leased: readonly LeasedTask[]): Promise<never> {
    try {
      return await takeBack(this.#engineState, leased);
    } catch (error) {
      throw this.#refused(error);
    } finally {
      this.#leasing.leave();
    }
  }

  /** The tasks that have ended, in the order of the command. None: no task has ended within the wait. */
  waitForTasks(command: WaitCommand, { signal }: CallContext = {}): Promise<readonly EndedTask[]> {
    return this.#translated(() => {
      if (!this.#taskWaits || !this.#readable()) throw notReady(this.#health);
      return this.#taskWaits.wait(command, signal);
    });
  }

  /** What has happened in a group behind a position. Waits for an event if there is none. */
  readEvents(command: ReadEventsCommand, { signal }: CallContext = {}): Promise<EventPage> {
    return this.#translated(async () => {
      const { holdings } = this.#deps;
      for (;;) {
        const engineState = this.#readable();
        if (engineState === undefined) throw notReady(this.#health);
        const id = engineState.partitionOf(command.group);
        const gate = holdings.gate(id);
        if (gate !== undefined) {
          await gate;
          continue;
        }
        const read = engineState.readEvents(command, signal);
        this.#background.wake();
        const page = await read;
        if (page !== undefined) return page;
      }
    });
  }

  listQueues(command: ListCommand): Promise<QueuePage> {
    return this.#readFiltered(command.filter, (engineState) => listQueues(engineState, command));
  }

  queueStats(command: StatsCommand): Promise<StatsReport> {
    const work = (engineState: EngineState): Promise<StatsReport> => queueStats(engineState, command);
    return command.kind === 'filtered' ? this.#readFiltered(command.filter, work) : this.#readOf(command.queues, work);
  }

  peekTasks(command: PeekCommand): Promise<readonly TaskView[]> {
    return this.#readOf([command.queue], (engineState) => peekTasks(engineState, command));
  }

  getTasks(command: GetCommand): Promise<readonly TaskView[]> {
    return this.#readOf([command.queue], (engineState) => getTasks(engineState, command));
  }

  /** Resolves with the number of tasks deleted. */
  deleteQueue(name: QueueName): Promise<number> {
    return this.#change((engineState) => deleteQueue(engineState, name, this.#reaper));
  }

  /** Resolves with the number of tasks made available. */
  resetLeases(name: QueueName): Promise<number> {
    return this.#change((engineState) => resetLeases(engineState, name));
  }

  figures(): EngineFigures {
    const { figures: backups } = this.backups;
    const { clock } = this.#deps;
    const log = this.#engineState?.log.figures;
    return {
      queues: this.#engineState?.table.size ?? 0,
      schedules: schedulesIn(this.#engineState?.schedules ?? []),
      schedulesAhead: this.#background.schedulesAhead,
      waiters: this.#leaseRequests?.waiters ?? 0,
      taskWaits: this.#taskWaits?.size ?? 0,
      pauses: this.#engineState?.pauses.count(clock.now()) ?? 0,
      bulkRuns: runsGoingOn(this.#engineState?.bulkRuns.all() ?? []),
      eventReaders: this.#engineState?.events.readers ?? 0,
      inFlightRequests: this.#admission.requests,
      inFlightBytes: this.#admission.bytes,
      cacheBytes: this.#engineState?.cache.bytes ?? 0,
      commits: log?.groups ?? 0,
      commitBytes: log?.bytes ?? 0,
      atoms: log?.atoms ?? 0,
      runningBackups: backups.running,
      backupBytes: backups.bytes,
      backedUpAt: backups.oldestAt,
      backupsFailed: backups.failures,
      backupFailure: backups.failure,
      clockAheadMs: clock.now() - clock.wall(),
      ...this.#counts,
    };
  }

  /** The groups here that have quotas. */
  *limitedGroups(): Generator<LimitedGroup> {
    for (const { group, usage } of this.#engineState?.table.groups() ?? []) {
      const limits = this.#deps.groupLimits(group);
      if (limits !== undefined) yield { group, limits, usage };
    }
  }

  /** Refuses new requests, ends long polls without tasks, finishes requests in flight, and writes a last checkpoint. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    const failed = this.#health.kind === 'failed';
    this.#health = { kind: 'stopping' };
    this.#background.cancel();
    this.#rebuilt?.reject(notReady(this.#health));
    this.#leaseRequests?.dismiss();
    this.#taskWaits?.dismiss();
    this.#engineState?.events.dismiss();
    await this.backups.stop();
    await this.#leasing.idle();
    await this.#admission.idle();
    await this.#background.ended();
    try {
      // If an earlier checkpoint failed, the last one makes up for it.
      await this.#checkpoint.catch(() => {});
      if (failed || !this.#engineState || this.#engineState.failed) return;
      await this.#engineState.durable();
      await this.#checkpoints.write(this.#engineState, true);
      await this.partitions.shared?.leaveAll();
    } catch (error) {
      // No data is lost: the next start replays more of the log.
      this.#deps.log.warn({ err: error }, 'stopped without a last checkpoint');
    }
  }

  /** Runs a request that changes a queue. `addedBytes`: see `RecordRequests`. */
  #change<T>(work: (engineState: EngineState) => Promise<T>, addedBytes?: number): Promise<T> {
    return this.#translated(() => {
      const engineState = this.#writable();
      const adds = addedBytes !== undefined;
      if (adds && this.#health.kind === 'full') throw diskFull();
      return this.#admission.run(adds ? 'new' : 'ending', addedBytes ?? 0, () => work(engineState));
    });
  }

  /** Runs a request that only reads. It is served even if the engine cannot write any more. */
  #read<T>(work: (engineState: EngineState) => Promise<T>): Promise<T> {
    return this.#translated(() => {
      const engineState = this.#readable();
      if (!engineState) throw notReady(this.#health);
      return this.#admission.run('new', 0, async () => work(engineState));
    });
  }

  #readable(): EngineState | undefined {
    const { kind } = this.#health;
    return kind === 'starting' || kind === 'stopping' ? undefined : this.#engineState;
  }

  /** Runs a request for queues that match a filter. With a group, this node must hold all its queues. */
  #readFiltered<T>({ group }: Pick<QueueFilter, 'group'>, work: (engineState: EngineState) => Promise<T>): Promise<T> {
    return group === undefined ? this.#read(work) : this.#readOf([{ group }], work);
  }

  /** Runs a read of these queues. This node must hold their groups from its start to its end. */
  #readOf<T>(names: readonly Pick<QueueName, 'group'>[], work: (engineState: EngineState) => Promise<T>): Promise<T> {
    const { holdings } = this.#deps;
    if (holdings.everything) return this.#read(work);
    return this.#read(async (engineState) => {
      const ids = new Set(names.map(({ group }) => engineState.partitionOf(group)));
      for (const id of ids) await holdings.gate(id);
      const answer = await work(engineState);
      for (const id of ids) if (!holdings.holds(id)) throw holdings.notHolder(id);
      return answer;
    });
  }

  /** Not an async function, like `leaseTasks`. */
  #translated<T>(work: () => Promise<T>): Promise<T> {
    const refuse = (error: unknown): Promise<never> => Promise.reject(this.#refused(error));
    try {
      return work().catch(refuse);
    } catch (error) {
      return refuse(error);
    }
  }

  #refused(error: unknown): Refusal {
    this.#counts.refused++;
    const refusal = refusalOf(error);
    this.#damageLog.note(refusal);
    return refusal;
  }

  #writable(): EngineState {
    const { kind } = this.#health;
    if (!this.#engineState || (kind !== 'serving' && kind !== 'full')) throw notReady(this.#health);
    return this.#engineState;
  }

  /** The state for work in the background. Undefined while nothing can be written. */
  #current(): EngineState | undefined {
    const { kind } = this.#health;
    return (kind === 'serving' || kind === 'full') && !this.#engineState?.failed ? this.#engineState : undefined;
  }

  #memoryDeps(): EngineStateDeps {
    const { store, clock, random, config, holdings, groupLimits, shared, onBulkRunEnd, tellsAll } = this.#deps;
    const onFailed = (cause: Error): void => void this.#onWriteFailed(cause);
    const onChanged = (): void => this.#background.wake();
    const own = { counts: this.#counts, admission: this.#admission, onFailed, onChanged };
    return { store, clock, random, config, holdings, groupLimits, shared, onBulkRunEnd, tellsAll, ...own };
  }

  #onStoreState(state: StoreState): void {
    const { kind } = this.#health;
    if (kind === 'stopping' || kind === 'failed') return;
    const { log } = this.#deps;
    if (state.kind === 'full' && kind !== 'full') log.warn({ freeBytes: state.freeBytes }, 'disk full: no new tasks');
    if (state.kind === 'writable' && kind === 'full') log.info({}, 'disk has space again');
    if (state.kind === 'failed') this.#fail(state.cause);
    else if (!this.#engineState?.failed) this.#health = { kind: state.kind === 'full' ? 'full' : 'serving' };
  }

  /** Rebuilds the state from the store, because memory is ahead of the disk. After a full disk, writes continue then. */
  async #onWriteFailed(cause: Error): Promise<void> {
    if (this.#health.kind === 'stopping') return;
    this.#rebuilt = Promise.withResolvers();
    // No unhandled rejection if no operation waits for it.
    this.#rebuilt.promise.catch(() => {});
    if (cause instanceof StoreFullError) {
      this.#deps.log.warn(
        { err: cause },
        'the disk was full during a write: the state in memory is rebuilt from the disk',
      );
      this.#health = { kind: 'starting' };
    } else {
      this.#fail(cause);
    }
    if (!(cause instanceof StoreLostError)) await this.#reload();
  }

  async #reload(): Promise<void> {
    const { log, store } = this.#deps;
    try {
      const { engineState } = await openState(this.#memoryDeps());
      engineState.abandonOthers();
      const before = this.#engineState;
      this.#engineState = engineState;
      // They read on in the rebuilt memory.
      before?.events.dismiss();
      this.#background.wake();
    } catch (error) {
      if (this.#stopped) return;
      log.error({ err: error }, 'the store could not be read; trying again');
      this.#background.after(RELOAD_DELAY_MS, () => void this.#reload());
      return;
    }
    this.#rebuilt?.resolve();
    this.#reaper.noteLeftovers();
    if (this.#health.kind !== 'starting') return;
    this.#health = { kind: 'serving' };
    this.#onStoreState(store.state);
    this.#leaseRequests?.adopt(this.#engineState);
    this.#taskWaits?.adopt(this.#engineState);
  }

  /** Resolves with the rebuilt state after a failed write. */
  async #rebuiltMemory(): Promise<EngineState> {
    while (!this.#engineState || this.#engineState.failed) {
      if (this.#stopped || !this.#rebuilt) throw notReady(this.#health);
      await this.#rebuilt.promise;
    }
    return this.#engineState;
  }

  #fail(cause: Error): void {
    if (this.#health.kind === 'failed') return;
    const isLost = cause instanceof StoreLostError;
    this.#deps.log.error(
      { err: cause },
      isLost
        ? 'this node may use its store no more: it answers nothing until it is restarted'
        : 'a write or fsync failed: this node takes no more writes until it is restarted',
    );
    this.#health = { kind: 'failed', cause };
    const refusal = isLost
      ? lostStore(cause)
      : new Refusal('STORE_FAILED', 'a write to the store failed; this node takes no more writes');
    this.#leaseRequests?.dismiss(refusal);
    this.#taskWaits?.dismiss(refusal);
    if (isLost) this.#forget();
  }

  /** Drops the memory: another process may have changed what it is about. */
  #forget(): void {
    this.#rebuilt?.reject(notReady(this.#health));
    this.#engineState?.events.dismiss();
    this.#engineState = undefined;
    this.#leaseRequests = undefined;
    this.#taskWaits = undefined;
    const { holdings } = this.#deps;
    for (const [id] of [...holdings.entries()]) holdings.forget(id);
  }

  #tick(): Promise<void> {
    const engineState = this.#current();
    if (!engineState) return Promise.resolve();
    const earlier = this.#checkpoint;
    this.#checkpoint = (async () => {
      await earlier.catch(() => {});
      engineState.dropEmpty();
      await this.#checkpoints.write(engineState);
      const { clock, shared, holdings } = this.#deps;
      await engineState.requests.trim(clock.now(), shared && holdings.inMemory());
      if (this.#reaper.hasLeftovers) await this.#reaper.reapAll();
    })();
    return this.#checkpoint;
  }

  async #flush(): Promise<void> {
    const engineState = this.#engineState;
    if (engineState && !engineState.failed) await this.#checkpoints.flush(engineState);
  }
}
