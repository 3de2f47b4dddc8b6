import { vi } from 'vitest';
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
