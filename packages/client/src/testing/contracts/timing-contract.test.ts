import { expect, test, vi } from 'vitest';
import { systemTiming } from '../../transport/timing.ts';
import { ManualTiming } from '../manual-timing.ts';
import { timingContract } from './timing-contract.ts';

timingContract('the timing of the system', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'hrtime'] });
  return {
    timing: systemTiming,
    pass: async (ms) => void vi.advanceTimersByTime(ms),
    close: () => void vi.useRealTimers(),
  };
});

timingContract('ManualTiming', () => {
  const timing = new ManualTiming();
  return { timing, pass: (ms) => timing.advance(ms) };
});

test('a timer of the system for a time that has passed fires, and Node.js does not warn', async () => {
  const warned = vi.spyOn(process, 'emitWarning');
  await new Promise<void>((resolve) => systemTiming.after(-26.5, resolve, true));
  expect(warned).not.toHaveBeenCalled();
  warned.mockRestore();
});
