import type { Engine } from '@taskmaster/engine';
import { type EngineFigures, type QueueStats, Refusal } from '@taskmaster/engine/domain';
import type { Access } from '@taskmaster/server/access';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { openWatchedEngine, type WatchedEngine, watched } from '../testing/watched-engine.ts';
import { NodeMetrics } from './metrics.ts';
import { OTHER, QueueMetrics } from './queue-metrics.ts';

const stats = (name: string, available: number): QueueStats => ({
  queue: { group: '', name },
  available,
  leased: 1,
  delayed: 0,
  waiting: 0,
  completed: 0,
  enqueueRate: 0,
  leaseRate: 0,
  completeRate: 0,
  failureRate: 0,
  meanLeaseMs: 0,
  oldestAgeMs: available,
  pause: undefined,
  heldBy: [],
  heldKeys: 3,
  heldTasks: 2,
  heldSince: undefined,
  operations: {
    enqueued: available + 10,
    leased: 5,
    completed: 0,
    failed: 2,
    deadLettered: 1,
    waitedMs: 4_500,
    workedMs: 250,
  },
});

/** An engine with these queues, two a page, and these figures. */
async function engineWith(queues: readonly QueueStats[], figures: Partial<EngineFigures> = {}): Promise<WatchedEngine> {
  const engine = await openWatchedEngine();
  return watched(engine, {
    listQueues: async ({ after }) => {
      const from = after === undefined ? 0 : queues.findIndex(({ queue }) => queue.name === after.name) + 1;
      return { queues: queues.slice(from, from + 2), more: from + 2 < queues.length };
    },
    figures: () => ({ ...engine.figures(), ...figures }),
  });
}

describe('metrics of queues', () => {
  afterEach(() => void vi.useRealTimers());

  const queues = [stats('a', 1), stats('b', 50), stats('c', 3), stats('d', 40), stats('e', 2)];

  test('are those of the largest queues, on whatever page, and the sum of all others', async () => {
    const figures = await new QueueMetrics(2).read(await engineWith(queues));
    expect(figures.map(({ queue, available }) => [queue, available])).toEqual([
      ['b', 50],
      ['d', 40],
      [OTHER, 6],
    ]);
    expect(figures[2]).toMatchObject({ leased: 3, oldestAgeMs: 3 });
  });

  test('of the rest together leave the ages of dead letters out', async () => {
    const dead = stats('a.dead', 9);
    const figures = await new QueueMetrics(1).read(await engineWith([stats('b', 50), dead, stats('c', 3)]));
    expect(figures[1]).toMatchObject({ queue: OTHER, available: 12, oldestAgeMs: 3 });
    const shown = await new QueueMetrics(2).read(await engineWith([stats('b', 50), dead]));
    expect(shown[1]).toMatchObject({ queue: 'a.dead', oldestAgeMs: 9 });
  });

  test('count the paused queues', async () => {
    const pause = { message: undefined } as never;
    const paused = [stats('b', 50), stats('c', 3), stats('d', 2)].map((one) => ({ ...one, pause }));
    const figures = await new QueueMetrics(1).read(await engineWith([...paused, stats('a', 1)]));
    expect(figures.map(({ queue, paused }) => [queue, paused])).toEqual([
      ['b', 1],
      [OTHER, 2],
    ]);
  });

  test('count the tasks that limits hold back', async () => {
    const held = [stats('b', 50), stats('c', 3)].map((one) => ({ ...one, heldTasks: one.available }));
    const figures = await new QueueMetrics(1).read(await engineWith([...held, stats('a', 1)]));
    expect(figures.map(({ queue, heldTasks }) => [queue, heldTasks])).toEqual([
      ['b', 50],
      [OTHER, 5],
    ]);
  });

  test('count the tasks that nobody can run, but for those of dead letters among the rest', async () => {
    const kinds = { unclaimed: 2, count: 1, most: [] };
    const unclaimed = ['b', 'c', 'c.dead'].map((name, at) => ({ ...stats(name, 50 - at), kinds }));
    const figures = await new QueueMetrics(1).read(await engineWith([...unclaimed, stats('a', 1)]));
    expect(figures.map(({ queue, unclaimed }) => [queue, unclaimed])).toEqual([
      ['b', 2],
      [OTHER, 2],
    ]);
  });

  test('leave the label of the rest to the rest', async () => {
    const figures = await new QueueMetrics(5).read(await engineWith([stats(OTHER, 9), stats('a', 1)]));
    expect(figures.map(({ queue, available }) => [queue, available])).toEqual([
      ['a', 1],
      [OTHER, 9],
    ]);
  });

  test('include queues that became empty lately', async () => {
    const engine = await openWatchedEngine();
    await new QueueMetrics(1).read(engine);
    expect(engine.asked).toMatchObject([{ command: { includeEmpty: true } }]);
  });

  test('are those of the last look while the store does not answer, and new ones afterwards', async () => {
    vi.useFakeTimers();
    const engine = await engineWith([stats('a', 1)]);
    let now = 0;
    const metrics = new QueueMetrics(5, () => now);
    await metrics.read(engine);
    const answer = Promise.withResolvers<void>();
    const silent = {
      listQueues: async (...request: Parameters<Engine['listQueues']>) => {
        await answer.promise;
        return engine.listQueues(...request);
      },
    };
    now = 6_000;
    const read = metrics.read(silent);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await read).toMatchObject([{ queue: 'a', available: 1 }]);
    now = 12_000;
    const asked = engine.asked.length;
    expect(await metrics.read(engine)).toMatchObject([{ queue: 'a', available: 1 }]);
    expect(engine.asked).toHaveLength(asked);
    answer.resolve();
    await vi.advanceTimersByTimeAsync(1_000);
    await metrics.read(await engineWith([stats('b', 2)]));
    expect(await metrics.read(engine)).toMatchObject([{ queue: 'b', available: 2 }]);
  });

  test('are looked up once for scrapes in quick succession', async () => {
    let now = 0;
    const engine = await openWatchedEngine();
    const metrics = new QueueMetrics(5, () => now);
    await Promise.all([metrics.read(engine), metrics.read(engine)]);
    expect(engine.asked).toHaveLength(1);
    now = 5_001;
    await metrics.read(engine);
    expect(engine.asked).toHaveLength(2);
  });
});

describe('metrics of a node', () => {
  afterEach(() => void vi.useRealTimers());

  function setUp(engine: Engine | undefined, access?: Access): NodeMetrics {
    return new NodeMetrics({
      version: '1.2.3',
      memory: { memory: 512, parts: { 'engine.cacheBytes': 100, process: 160 } },
      engine: () => engine,
      health: () => engine?.health ?? { kind: 'starting' },
      cluster: () => undefined,
      database: () => ({ reconnects: 2, waitingMs: 1_500 }),
      storeSize: () => ({ disk: 1_000, memory: 500, space: { freeBytes: 70, fullBelowBytes: 30 } }),
      tls: () => undefined,
      grpc: () => ({ connections: 3, refusedConnections: 2, unreadReplyBytes: 0, receivingBytes: 7, waitingBytes: 8 }),
      access: () => access,
      limitedGroups: () => [{ group: 'shop', limits: { tasks: 9 }, usage: { tasks: 4, bytes: 1, queues: 1 } }],
      maxQueues: 10,
    });
  }

  test('have the quotas of groups', async () => {
    const text = await setUp(undefined).text();
    expect(text).toContain('taskmaster_group_quota{group="shop",quota="tasks"} 9');
    expect(text).toContain('taskmaster_group_quota_used{group="shop",quota="tasks"} 4');
    expect(text).not.toContain('quota="bytes"');
  });

  test('can be read before the engine is open', async () => {
    const text = await setUp(undefined).text();
    expect(text).toContain('taskmaster_health{state="starting"} 1');
    expect(text).toContain('taskmaster_build_info{version="1.2.3"');
  });

  test('have the statements of a database, and its waits', async () => {
    const metrics = setUp(undefined);
    metrics.database.answered('commit', 3);
    const text = await metrics.text();
    expect(text).toContain('taskmaster_database_statement_duration_seconds_bucket{le="0.005",statement="commit"} 1');
    expect(text).toContain('taskmaster_database_waiting_seconds 1.5');
    expect(text).toContain('taskmaster_database_reconnects_total 2');
  });

  test('have the memory and its parts', async () => {
    const text = await setUp(undefined).text();
    expect(text).toContain('taskmaster_memory_bytes 512');
    expect(text).toContain('taskmaster_memory_part_bytes{part="engine.cacheBytes"} 100');
    expect(text).toContain('process_resident_memory_bytes ');
  });

  test('count calls by their outcome, and refusals by their reason', async () => {
    const metrics = setUp(await engineWith([]));
    metrics.callEnded('UpdateTasks', undefined, 4);
    metrics.callEnded('UpdateTasks', 'DISK_FULL', 1);
    metrics.callEnded('UpdateTasks', 'OVERLOADED', 1);
    const text = await metrics.text();
    expect(text).toContain('taskmaster_rpc_duration_seconds_count{method="UpdateTasks",code="OK"} 1');
    expect(text).toContain('taskmaster_rpc_duration_seconds_count{method="UpdateTasks",code="RESOURCE_EXHAUSTED"} 2');
    expect(text).toContain('taskmaster_refusals_total{reason="DISK_FULL"} 1');
  });

  test("show the engine's own counts and its queues", async () => {
    const metrics = setUp(await engineWith([stats('mail', 4)], { tasksEnqueued: 7, waiters: 2 }));
    await metrics.text();
    const text = await metrics.text();
    expect(text).toContain('taskmaster_tasks_enqueued_total 7');
    expect(text).toContain('taskmaster_waiting_leases 2');
    expect(text).toContain('taskmaster_tasks{queue="mail",state="available"} 4');
    expect(text).toContain('taskmaster_queue_paused{queue="mail"} 0');
    expect(text).toContain('taskmaster_queue_held_back_tasks{queue="mail"} 2');
    expect(text).toContain('taskmaster_queue_held_keys{queue="mail"} 3');
    expect(text).toContain('taskmaster_store_bytes{kind="disk"} 1000');
    expect(text).toContain('taskmaster_disk_free_bytes 70');
    expect(text).toContain('taskmaster_disk_full_below_bytes 30');
  });

  test('show how long tasks have waited and were worked on, as histograms', async () => {
    const figures = {
      waited: { bounds: [100, 2_500], counts: [3, 2, 1], sumMs: 12_000 },
      backedUpAt: 1_700_000_000_000,
      backupsFailed: 2,
      backupFailure: { at: 1_700_000_100_000, problem: 'no space' },
    };
    const text = await setUp(await engineWith([], figures)).text();
    expect(text).toContain('# TYPE taskmaster_task_wait_seconds histogram');
    expect(text).toContain('taskmaster_task_wait_seconds_bucket{le="0.1"} 3');
    expect(text).toContain('taskmaster_task_wait_seconds_bucket{le="2.5"} 5');
    expect(text).toContain('taskmaster_task_wait_seconds_bucket{le="+Inf"} 6');
    expect(text).toContain('taskmaster_task_wait_seconds_sum 12');
    expect(text).toContain('taskmaster_task_wait_seconds_count 6');
    expect(text).toContain('taskmaster_task_work_seconds_count 0');
    expect(text).toContain('taskmaster_backup_oldest_timestamp_seconds 1700000000');
    expect(text).toContain('taskmaster_backups_failed_total 2');
    expect(text).toContain('taskmaster_backup_failed_timestamp_seconds 1700000100');
    expect(await setUp(undefined).text()).not.toContain('taskmaster_task_wait_seconds_');
  });

  test('have no series, rather than 0, for what is unknown: alerts would take the 0 for a time', async () => {
    const metrics = setUp(await engineWith([], { backedUpAt: undefined }));
    // The second time as well: a series could come with the first.
    for (const text of [await metrics.text(), await metrics.text()]) {
      expect(text).not.toMatch(/^taskmaster_backup_(oldest|failed)_timestamp_seconds/m);
      expect(text).not.toMatch(/^taskmaster_tls_certificate_expires_timestamp_seconds/m);
    }
  });

  test('tell that changed rules cannot be used', async () => {
    const access = { reloadFailed: false, usages: { limited: () => [] } };
    const metrics = setUp(undefined, access as unknown as Access);
    expect(await metrics.text()).toContain('taskmaster_reload_failed{what="access"} 0');
    access.reloadFailed = true;
    expect(await metrics.text()).toContain('taskmaster_reload_failed{what="access"} 1');
    expect(await metrics.text()).not.toContain('what="tls"');
  });

  test('count the runs of schedules, and show how late they came', async () => {
    const counted = {
      schedules: 3,
      schedulesAhead: 2,
      runsEnqueued: 7,
      runsMissed: 2,
      runsSkipped: 1,
      runsTriggered: 4,
    };
    const metrics = setUp(await engineWith([], counted));
    for (const ms of [60, 80, 30_000]) metrics.ran(ms);
    const text = await metrics.text();
    expect(text).toContain('taskmaster_schedules 3');
    expect(text).toContain('taskmaster_schedules_ahead_of_clock 2');
    const outcomes = { enqueued: 7, missed: 2, skipped: 1, triggered: 4 };
    for (const [outcome, count] of Object.entries(outcomes)) {
      expect(text).toContain(`taskmaster_schedule_runs_total{outcome="${outcome}"} ${count}`);
    }
    expect(text).toContain('taskmaster_schedule_lateness_seconds_bucket{le="0.1"} 2');
    expect(text).toContain('taskmaster_schedule_lateness_seconds_count 3');
  });

  test('forget a queue that is gone', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const queues = [stats('mail', 4)];
    const metrics = setUp(
      await openWatchedEngine({ listQueues: async () => ({ queues: queues.splice(0), more: false }) }),
    );
    expect(await metrics.text()).toContain('queue="mail"');
    vi.advanceTimersByTime(5_001);
    expect(await metrics.text()).not.toContain('queue="mail"');
  });

  test('count the operations on each queue, also for two scrapers at once', async () => {
    const queues = [stats('mail', 50), ...Array.from({ length: 10 }, (_, i) => stats(`small-${i}`, 1))];
    const metrics = setUp(await engineWith(queues));
    for (const text of await Promise.all([metrics.text(), metrics.text()])) {
      expect(text).toContain('# TYPE taskmaster_queue_tasks_enqueued_total counter');
      expect(text).toContain('taskmaster_queue_tasks_enqueued_total{queue="mail"} 60');
      expect(text).toContain('taskmaster_queue_tasks_leased_total{queue="mail"} 5');
      expect(text).toContain('taskmaster_queue_tasks_completed_total{queue="mail"} 0');
      expect(text).toContain('taskmaster_queue_attempts_failed_total{queue="mail"} 2');
      expect(text).toContain('taskmaster_queue_tasks_dead_lettered_total{queue="mail"} 1');
      expect(text).toContain('taskmaster_queue_task_wait_seconds_total{queue="mail"} 4.5');
      expect(text).toContain('taskmaster_queue_task_work_seconds_total{queue="mail"} 0.25');
      expect(text).toContain('taskmaster_tasks{queue="_other",state="available"} 1');
      expect(text).not.toContain('_total{queue="_other"}');
    }
  });

  test('leave the queues out while the node refuses to read them', async () => {
    const refuse = () => Promise.reject(new Refusal('OVERLOADED', 'too many requests'));
    const text = await setUp(await openWatchedEngine({ listQueues: refuse })).text();
    expect(text).toContain('taskmaster_health{state="serving"} 1');
    expect(text).not.toContain('taskmaster_tasks{');
  });

  test('show how long hand-offs made callers wait', async () => {
    const metrics = setUp(await engineWith([]));
    for (const ms of [3, 8, 700]) metrics.handedOver(ms);
    const text = await metrics.text();
    expect(text).toContain('taskmaster_cluster_hand_off_freeze_duration_seconds_bucket{le="0.01"} 2');
    expect(text).toContain('taskmaster_cluster_hand_off_freeze_duration_seconds_sum 0.711');
  });
});
