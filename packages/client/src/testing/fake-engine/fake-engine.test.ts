import { expect, test } from 'vitest';
import { emptyRequest } from '../../calls/update-request.ts';
import { ManualTiming } from '../manual-timing.ts';
import { FakeEngine } from './fake-engine.ts';

/** Each look at the clock takes a millisecond, as on a busy machine. */
class SlowTiming extends ManualTiming {
  override now(): number {
    this.block(1);
    return super.now();
  }
}

test('a lease request gets a task that becomes available while the request begins to wait', async () => {
  const request = {
    queues: ['q'],
    maxTasks: 1,
    leaseDurationMs: 1_000,
    maxPid: Buffer.alloc(0),
    workerLabel: '',
    maxBytes: 0,
    anyOrder: false,
    patterns: [],
    maxMoreQueues: 0,
  };
  for (let delayMs = 1; delayMs <= 20; delayMs++) {
    const timing = new SlowTiming();
    const engine = new FakeEngine(timing);
    const task = {
      queue: 'q',
      pid: Buffer.from('a'),
      data: Buffer.alloc(0),
      mode: 1 as const,
      delayMs,
      runAtUnixMs: 0,
      retry: undefined,
      headers: {},
      key: '',
      timeLimitMs: 0,
      topic: '',
    };
    engine.update({ ...emptyRequest(), enqueue: [task] });
    const leased = engine.lease({ ...request, waitMs: 60_000 });
    await timing.advance(1_000);
    expect((await Promise.race([leased, Promise.resolve({ tasks: [] })])).tasks, `${delayMs} ms`).toHaveLength(1);
  }
});
