import { expect, test } from 'vitest';
import { BytesInFlight } from './bytes-in-flight.ts';

test('requests above the limit are refused until others end; a single one is always accepted', () => {
  const inFlight = new BytesInFlight(100);
  {
    using _one = inFlight.take(60);
    expect(() => inFlight.take(50)).toThrow(/limit is 100/);
    using _two = inFlight.take(40);
    expect(inFlight.bytes).toBe(100);
  }
  using _large = inFlight.take(1000);
  expect(inFlight.bytes).toBe(1000);
});
