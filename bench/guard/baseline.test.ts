import { describe, expect, test } from 'vitest';
import {
  type Baseline,
  compare,
  type Figures,
  formatBaseline,
  isFailure,
  parseBaseline,
  UnreadableBaselineError,
} from './baseline.ts';

const baseline = (counted: Figures, measured: Figures = {}): Baseline => ({
  node: 'v24.0.0',
  rows: { B1: { counted, measured } },
});

describe('the comparison with the baseline', () => {
  test.each([
    ['one fsync more in two hundred tasks', { fsyncs: 1 }, { fsyncs: 1.005 }, 'worse', true],
    ['one message less', { messages_to_node: 0.02 }, { messages_to_node: 0.015 }, 'better', false],
    ['a byte more', { stored_bytes: 1_200 }, { stored_bytes: 1_201 }, 'same', false],
    ['a copy of the payload', { stored_bytes: 1_200 }, { stored_bytes: 2_200 }, 'worse', true],
    ['more than zero', { fsyncs: 0 }, { fsyncs: 0.005 }, 'worse', true],
    ['the same', { fsyncs: 1 / 3 }, { fsyncs: 1 / 3 }, 'same', false],
    ['a figure that is new', {}, { fsyncs: 2 }, 'new', false],
    ['a figure that is not counted any more', { fsyncs: 2 }, {}, 'gone', true],
  ])('of a counted figure: %s', (_what, was, is, verdict, fails) => {
    const [one, ...others] = compare(baseline(was), baseline(is));
    expect(others).toEqual([]);
    expect(one).toMatchObject({ row: 'B1', kind: 'counted', verdict });
    expect(one && isFailure(one)).toBe(fails);
  });

  test.each([
    ['somewhat more', 1.2, 'same'],
    ['much more', 3, 'worse'],
    ['much less', 0.5, 'better'],
  ])('of a measured figure never fails: %s', (_what, cpu, verdict) => {
    const [one] = compare(baseline({}, { cpu: 1 }), baseline({}, { cpu }));
    expect(one).toMatchObject({ kind: 'measured', verdict });
    expect(one && isFailure(one)).toBe(false);
  });

  test('fails for a row that is not measured any more', () => {
    const comparisons = compare(baseline({ fsyncs: 1 }), { node: 'v24.0.0', rows: {} });
    expect(comparisons.filter(isFailure)).toMatchObject([{ row: 'B1', figure: 'fsyncs', verdict: 'gone' }]);
  });
});

describe('the file of the baseline', () => {
  test('is read as it was written, and compares as the same', () => {
    const seen = baseline({ fsyncs: 1 / 3, stored_bytes: 1_234.567_89 }, { cpu: 2.345_678_9 });
    const kept = parseBaseline(formatBaseline(seen));
    expect(kept.rows.B1?.counted.stored_bytes).toBe(1_234.6);
    expect(compare(kept, seen).map(({ verdict }) => verdict)).toEqual(['same', 'same', 'same']);
  });

  test.each([
    ['not JSON', '{'],
    ['not an object', '[]'],
    ['without figures in a row', '{"node":"v24.0.0","rows":{"B1":{"counted":{}}}}'],
    ['with a figure that is not a number', '{"node":"v24.0.0","rows":{"B1":{"counted":{"fsyncs":"1"},"measured":{}}}}'],
  ])('is refused if it is %s', (_what, text) => {
    expect(() => parseBaseline(text)).toThrow(UnreadableBaselineError);
  });
});
