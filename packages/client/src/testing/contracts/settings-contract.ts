import {
  BulkAction,
  BulkTasks,
  EnqueueMode,
  limits,
  methods,
  NO_SETTINGS,
  type QueueSettings,
  WhenFull,
} from '@taskmaster/proto';
import { expect, test } from 'vitest';
import type { TransportWorld } from './transport-world.ts';

const NONE = NO_SETTINGS;

/** The part of the transport contract about settings of queues. */
export function testSettings(start: () => Promise<TransportWorld>): void {
  test('settings of queues are put, replaced, listed and deleted', async () => {
    await using world = await start();
    const { transport } = world;
    const put = (queues: string, settings: Partial<QueueSettings>) =>
      transport.unary(methods.putQueueSettings, { queues, settings: { ...NONE, ...settings } });
    const retry = { maxAttempts: 0, backoffInitialMs: 1, backoffMaxMs: 2, deadLetterQueue: '' };
    await put('shop#mail', { leaseDurationMs: 1000 });
    await put('shop#mail', { retry, mode: EnqueueMode.ENQUEUE_MODE_FAIL });
    await put('other#mail', { leaseDurationMs: 5 });
    const { settings, effective } = await transport.unary(methods.listQueueSettings, { queue: 'shop#' });
    expect(settings).toEqual([{ ...NONE, queues: 'shop#mail', retry, mode: EnqueueMode.ENQUEUE_MODE_FAIL }]);
    expect(effective).toBeUndefined();
    expect((await transport.unary(methods.listQueueSettings, { queue: 'shop#mail' })).effective).toEqual({
      queues: 'shop#mail',
      retry,
      deadLetterQueue: 'shop#mail.dead',
      leaseDurationMs: 30_000,
      mode: EnqueueMode.ENQUEUE_MODE_FAIL,
      resultRetentionMs: limits.defaultResultRetentionMs,
      keepOutMs: 0,
      timeLimitMs: 0,
      maxBacklog: 0,
      maxKeyBacklog: 0,
      whenFull: WhenFull.WHEN_FULL_REFUSE,
    });
    expect(await transport.unary(methods.deleteQueueSettings, { queues: 'shop#mail' })).toEqual({ deleted: true });
    expect(await transport.unary(methods.deleteQueueSettings, { queues: 'shop#mail' })).toEqual({ deleted: false });
    expect((await transport.unary(methods.listQueueSettings, { queue: 'shop#' })).settings).toEqual([]);
  });

  test('queues are paused, listed as paused, and resumed', async () => {
    await using world = await start();
    const { transport } = world;
    const request = { queues: 'shop#m*', reason: 'why', durationMs: 0, untilUnixMs: 0 };
    const { pause } = await transport.unary(methods.pauseQueues, request);
    expect(pause).toMatchObject({ queues: 'shop#m*', reason: 'why', untilUnixMs: 0 });
    expect(pause?.pausedBy).not.toBe('');
    await transport.unary(methods.pauseQueues, { ...request, queues: 'shop#mail', durationMs: 60_000 });
    const { queues } = await transport.unary(methods.getQueueStats, { queues: ['shop#mail'], filter: undefined });
    expect(queues[0]?.pause).toEqual(pause);
    const { pauses } = await transport.unary(methods.listQueueSettings, { queue: 'shop#' });
    expect(pauses.map(({ queues }) => queues)).toEqual(['shop#mail', 'shop#m*']);
    expect((await transport.unary(methods.listQueueSettings, { queue: 'shop#bills' })).pauses).toEqual([]);
    const resume = (queues: string) => transport.unary(methods.resumeQueues, { queues });
    expect(await resume('shop#mail')).toEqual({ resumed: true, pauses: [pause] });
    expect(await resume('shop#m*')).toEqual({ resumed: true, pauses: [] });
    expect(await resume('shop#m*')).toEqual({ resumed: false, pauses: [] });
  });

  test('tasks are changed in bulk, previewed before, and listed with the progress', async () => {
    await using world = await start();
    const { transport } = world;
    const filter = {
      tasks: BulkTasks.BULK_TASKS_AVAILABLE,
      minAgeMs: 0,
      maxAgeMs: 1_000_000,
      errorContains: '',
      headers: { all: [{ key: 'a', test: { $case: 'exists' as const, value: false } }] },
      keyPrefix: 'k',
    };
    const spec = {
      action: BulkAction.BULK_ACTION_CANCEL,
      filter,
      target: '',
      cancelReason: 'why',
      delayMs: 0,
      runAtUnixMs: 0,
      rate: 0,
      maxTasks: 7,
    };
    const request = { id: 'run', queues: 'shop#b*', spec, preview: false, allTasks: false };
    const { preview, run: none } = await transport.unary(methods.startBulkRun, { ...request, preview: true });
    expect([preview, none]).toEqual([
      { queues: 0, tasks: 0, lookedAt: 0, matched: 0, leased: 0, samples: [] },
      undefined,
    ]);
    const { run, started } = await transport.unary(methods.startBulkRun, request);
    expect([started, run?.spec, run?.queues]).toEqual([true, spec, 'shop#b*']);
    expect(run?.startedBy).not.toBe('');
    expect((await transport.unary(methods.startBulkRun, request)).started).toBe(false);
    const list = async (queue: string, id = '') =>
      (await transport.unary(methods.listBulkRuns, { queue, id })).runs.map((one) => one.id);
    expect(await list('shop#')).toEqual(['run']);
    expect([await list('shop#bills'), await list('shop#mail'), await list('shop#', 'other')]).toEqual([
      ['run'],
      [],
      [],
    ]);
    expect((await transport.unary(methods.cancelBulkRun, { queue: 'shop#', id: 'run' })).run?.id).toBe('run');
    const unknown = await transport.unary(methods.cancelBulkRun, { queue: 'shop#', id: 'other' });
    expect(unknown).toEqual({ run: undefined, cancelled: false });
  });

  test('queues are limited, listed as held back, and unlimited', async () => {
    await using world = await start();
    const { transport } = world;
    const rate = { tasks: 100, perMs: 60_000, burst: 0 };
    const { limit } = await transport.unary(methods.limitQueues, { queues: 'shop#l*', maxLeased: 1, rate, keys: '' });
    expect(limit).toMatchObject({ queues: 'shop#l*', maxLeased: 1, leased: 0, usedUpSinceUnixMs: 0 });
    expect(limit?.rate).toEqual({ ...rate, burst: 100 });
    expect(limit?.limitedBy).not.toBe('');
    await transport.unary(methods.limitQueues, { queues: 'shop#letters', maxLeased: 9, rate: undefined, keys: '' });
    const { limits } = await transport.unary(methods.listQueueSettings, { queue: 'shop#' });
    expect(limits.map(({ queues }) => queues)).toEqual(['shop#letters', 'shop#l*']);
    expect((await transport.unary(methods.listQueueSettings, { queue: 'shop#bills' })).limits).toEqual([]);
    const { queues } = await transport.unary(methods.getQueueStats, { queues: ['shop#letters'], filter: undefined });
    expect(queues[0]?.heldBy).toEqual([]);
    const unlimit = (queues: string) => transport.unary(methods.unlimitQueues, { queues, keys: '' });
    expect(await unlimit('shop#letters')).toEqual({ removed: true, limits: [limit] });
    expect(await unlimit('shop#l*')).toEqual({ removed: true, limits: [] });
    expect(await unlimit('shop#l*')).toEqual({ removed: false, limits: [] });
    const ofKeys = { queues: 'shop#l*', keys: 'customer/*' };
    const each = await transport.unary(methods.limitQueues, { ...ofKeys, maxLeased: 1, rate: undefined });
    expect(each.limit).toMatchObject({ ...ofKeys, maxLeased: 1, heldKeys: [] });
    expect(await unlimit('shop#l*')).toEqual({ removed: false, limits: [each.limit] });
    expect(await transport.unary(methods.unlimitQueues, ofKeys)).toEqual({ removed: true, limits: [] });
  });
}
