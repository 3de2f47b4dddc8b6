import { CancelledError, DeadlineExceededError, DiskFullError } from '@taskmaster/client';
import type { TaskEngine } from '@taskmaster/engine';
import {
  type CallSignal,
  type Instant,
  type LeasedTask,
  type LeaseToken,
  type Pid,
  Refusal,
  type UpdateCommand,
} from '@taskmaster/engine/domain';
import { keptLog } from '@taskmaster/engine/testing';
import { methods } from '@taskmaster/proto';
import { aLease, anEnqueue, anUpdate, bytes } from '@taskmaster/server/testing';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { InProcessTransport, type InProcessTransportOptions } from './in-process-transport.ts';
import { createHandlers } from './service/handlers.ts';
import { fakeEngine } from './testing/fake-engine.ts';

function setUp(does: Partial<TaskEngine>, backup: InProcessTransportOptions['backup'] = async function* () {}) {
  const engine = fakeEngine(does);
  const log = keptLog();
  let closed = 0;
  const close = async () => {
    closed++;
  };
  const transport = new InProcessTransport({ handlers: createHandlers(engine, log), backup, log, close });
  return { engine, log, transport, closed: () => closed };
}

const never = () => new Promise<never>(() => {});

const aTask = (data: Uint8Array): LeasedTask => ({
  queue: { group: '', name: 'mail' },
  pid: 'a' as Pid,
  data,
  token: 1 as LeaseToken,
  until: 2 as Instant,
  attempt: 1,
  enqueuedAt: 1 as Instant,
  maxAttempts: 20,
  leaseDurationMs: undefined,
  timeLimitMs: 0,
  history: undefined,
  headerBytes: 0,
});

describe('a call in process', () => {
  test('fails as the same call over gRPC would', async () => {
    const { transport } = setUp({
      updateTasks: async () => {
        throw new Refusal('DISK_FULL', 'no space', { retryDelayMs: 500 });
      },
    });
    const error = await transport
      .unary(methods.updateTasks, anUpdate({ enqueue: [anEnqueue()] }))
      .catch((e: unknown) => e);
    expect(error).toBeInstanceOf(DiskFullError);
    expect(error).toMatchObject({ message: 'no space', retryDelayMs: 500, retryable: true });
  });

  test('does not share its payloads with the engine, neither way', async () => {
    const kept: UpdateCommand[] = [];
    const stored = bytes('stored');
    const { transport } = setUp({
      updateTasks: async (command) => {
        kept.push(command);
        return { enqueued: [], renewed: [], released: [] };
      },
      leaseTasks: async () => [aTask(stored)],
    });
    const given = bytes('given');
    await transport.unary(methods.updateTasks, anUpdate({ enqueue: [anEnqueue({ data: given })] }));
    given.fill(0);
    expect(String(Buffer.from(kept[0]?.enqueue[0]?.data ?? []))).toBe('given');
    const { tasks } = await transport.unary(methods.leaseTasks, aLease());
    tasks[0]?.data.fill(0);
    expect(String(stored)).toBe('stored');
  });

  test('ends when its time is up', async () => {
    const { transport } = setUp({ deleteQueue: never });
    await expect(transport.unary(methods.deleteQueue, { queue: 'mail' }, { timeoutMs: 1 })).rejects.toBeInstanceOf(
      DeadlineExceededError,
    );
  });

  test('that is given up while the engine works on it may have taken effect', async () => {
    const { transport } = setUp({ updateTasks: never });
    const abort = new AbortController();
    const update = transport.unary(methods.updateTasks, anUpdate({ enqueue: [anEnqueue()] }), { signal: abort.signal });
    abort.abort();
    await expect(update).rejects.toMatchObject({ name: 'CancelledError', maybeApplied: true });
    const late = transport.unary(methods.updateTasks, anUpdate({ enqueue: [anEnqueue()] }), {
      signal: AbortSignal.abort(),
    });
    await expect(late).rejects.toMatchObject({ name: 'CancelledError', maybeApplied: false });
  });

  test('that is a waiting lease has its waiting time on top', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const granted = Promise.withResolvers<readonly LeasedTask[]>();
    const { transport } = setUp({ leaseTasks: () => granted.promise });
    const leased = transport.unary(methods.leaseTasks, aLease({ waitMs: 60_000 }), { timeoutMs: 1 });
    await vi.advanceTimersByTimeAsync(60_000);
    granted.resolve([]);
    expect(await leased).toEqual({ tasks: [], moreQueues: [] });
  });

  test('ends when its signal says so, and tells the engine', async () => {
    const signals: (CallSignal | undefined)[] = [];
    const { transport } = setUp({
      leaseTasks: (_command, context) => {
        signals.push(context?.signal);
        return never();
      },
    });
    const abort = new AbortController();
    const leased = transport.unary(methods.leaseTasks, aLease({ waitMs: 60_000 }), { signal: abort.signal });
    abort.abort();
    await expect(leased).rejects.toBeInstanceOf(CancelledError);
    expect(signals[0]?.aborted).toBe(true);
  });

  test('that was given up before it began does not reach the engine', async () => {
    const { transport, engine } = setUp({});
    const update = transport.unary(methods.updateTasks, anUpdate({ enqueue: [anEnqueue()] }), {
      signal: AbortSignal.abort(),
    });
    await expect(update).rejects.toBeInstanceOf(CancelledError);
    expect(engine.asked).toEqual([]);
  });

  test('that fails for a reason of ours is logged and says nothing of the inside', async () => {
    const { transport, log } = setUp({
      deleteQueue: async () => {
        throw new TypeError('secret');
      },
    });
    const error = await transport.unary(methods.deleteQueue, { queue: 'mail' }).catch((e: unknown) => e);
    expect(error).toMatchObject({ reason: 'INTERNAL', message: expect.not.stringContaining('secret') });
    expect(log.lines).toHaveLength(1);
  });
});

describe('closing', () => {
  test('ends calls in flight, refuses new ones and closes the engine, once', async () => {
    const { transport, closed } = setUp({ deleteQueue: never });
    const call = transport.unary(methods.deleteQueue, { queue: 'mail' });
    await Promise.all([transport.close(), transport.close(), expect(call).rejects.toBeInstanceOf(CancelledError)]);
    await expect(transport.unary(methods.deleteQueue, { queue: 'mail' })).rejects.toBeInstanceOf(CancelledError);
    expect(closed()).toBe(1);
  });
});
