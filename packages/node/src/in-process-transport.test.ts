import { CancelledError, DeadlineExceededError, DiskFullError } from '@taskmaster/client';
import { type LeasedTask, Refusal, type UpdateCommand } from '@taskmaster/engine/domain';
import { keptLog } from '@taskmaster/engine/testing';
import { methods } from '@taskmaster/proto';
import { aGet, aLease, anEnqueue, anUpdate, bytes } from '@taskmaster/server/testing';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { InProcessTransport, type InProcessTransportOptions } from './in-process-transport.ts';
import { createHandlers } from './service/handlers.ts';
import { type Instead, openWatchedEngine } from './testing/watched-engine.ts';

async function setUp(does: Instead, backup: InProcessTransportOptions['backup'] = async function* () {}) {
  const engine = await openWatchedEngine(does);
  const log = keptLog();
  let closed = 0;
  const close = async () => {
    closed++;
  };
  const transport = new InProcessTransport({ handlers: createHandlers(engine, log), backup, log, close });
  return { engine, log, transport, closed: () => closed };
}

const never = () => new Promise<never>(() => {});

describe('a call in process', () => {
  test('fails as the same call over gRPC would', async () => {
    const { transport } = await setUp({
      updates: {
        apply: async () => {
          throw new Refusal('DISK_FULL', 'no space', { retryDelayMs: 500 });
        },
      },
    });
    const error = await transport
      .unary(methods.updateTasks, anUpdate({ enqueue: [anEnqueue()] }))
      .catch((e: unknown) => e);
    expect(error).toBeInstanceOf(DiskFullError);
    expect(error).toMatchObject({ message: 'no space', retryDelayMs: 500, retryable: true });
  });

  test('does not share its payloads with the engine, neither way', async () => {
    const { engine, transport } = await setUp({});
    const given = bytes('given');
    await transport.unary(methods.updateTasks, anUpdate({ enqueue: [anEnqueue({ data: given })] }));
    given.fill(0);
    const [{ command } = {}] = engine.asked;
    expect(String(Buffer.from((command as UpdateCommand).enqueue[0]?.data ?? []))).toBe('given');
    const { tasks } = await transport.unary(methods.leaseTasks, aLease());
    expect(Buffer.from(tasks[0]?.data ?? []).toString()).toBe('given');
    tasks[0]?.data.fill(0);
    const stored = await transport.unary(methods.getTasks, aGet({ pids: [bytes('a')], includeData: true }));
    expect(Buffer.from(stored.tasks[0]?.data ?? []).toString()).toBe('given');
  });

  test('ends when its time is up', async () => {
    const { transport } = await setUp({ deleteQueue: never });
    await expect(transport.unary(methods.deleteQueue, { queue: 'mail' }, { timeoutMs: 1 })).rejects.toBeInstanceOf(
      DeadlineExceededError,
    );
  });

  test('that is given up while the engine works on it may have taken effect', async () => {
    const { transport } = await setUp({ updates: { apply: never } });
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
    const { transport } = await setUp({ leaseTasks: () => granted.promise });
    const leased = transport.unary(methods.leaseTasks, aLease({ waitMs: 60_000 }), { timeoutMs: 1 });
    await vi.advanceTimersByTimeAsync(60_000);
    granted.resolve([]);
    expect(await leased).toEqual({ tasks: [], moreQueues: [] });
  });

  test('ends when its signal says so, and tells the engine', async () => {
    const { engine, transport } = await setUp({});
    const abort = new AbortController();
    const leased = transport.unary(methods.leaseTasks, aLease({ waitMs: 60_000 }), { signal: abort.signal });
    await expect.poll(() => engine.figures().waiters).toBe(1);
    abort.abort();
    await expect(leased).rejects.toBeInstanceOf(CancelledError);
    await expect.poll(() => engine.figures().waiters).toBe(0);
  });

  test('that was given up before it began does not reach the engine', async () => {
    const { transport, engine } = await setUp({});
    const update = transport.unary(methods.updateTasks, anUpdate({ enqueue: [anEnqueue()] }), {
      signal: AbortSignal.abort(),
    });
    await expect(update).rejects.toBeInstanceOf(CancelledError);
    expect(engine.asked).toEqual([]);
  });

  test('that fails for a reason of ours is logged and says nothing of the inside', async () => {
    const { transport, log } = await setUp({
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
    const { transport, closed } = await setUp({ deleteQueue: never });
    const call = transport.unary(methods.deleteQueue, { queue: 'mail' });
    await Promise.all([transport.close(), transport.close(), expect(call).rejects.toBeInstanceOf(CancelledError)]);
    await expect(transport.unary(methods.deleteQueue, { queue: 'mail' })).rejects.toBeInstanceOf(CancelledError);
    expect(closed()).toBe(1);
  });
});
