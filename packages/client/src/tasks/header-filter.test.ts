import { describe, expect, test } from 'vitest';
import { type HeaderFilter, headerFilter, wireFilter } from './header-filter.ts';

describe('a filter of headers', () => {
  test.each<HeaderFilter>([
    {},
    { tenant: 'acme' },
    { tenant: '' },
    { tenant: ['acme', 'globex'], type: { prefix: 'order.' }, trace: { exists: true }, test: { exists: false } },
  ])('%j is read as it was sent', (filter) => {
    expect(headerFilter(wireFilter(filter))).toEqual(filter);
  });

  test.each([1, null, undefined, {}, { prefix: 1 }, { exists: 'yes' }, ['a', 1]])(
    'refuses %j for a condition',
    (wrong) => {
      expect(() => wireFilter({ tenant: wrong as never })).toThrow(
        new TypeError('filter: tenant is not text, a list of texts, { prefix } or { exists }'),
      );
    },
  );
});
