import { expect, test } from 'vitest';
import { hashOf, placeOf } from './place.ts';

test.each([['mail'], ['crawl#fetch/2?x=1&y'], ['<b>"\u202e%41'], ['名前 +']])(
  'the address of %s leads back to it',
  (name) => {
    const place = placeOf(hashOf('task', [name, 'p/1'], { tab: 'a b&c', none: '' }));
    expect([place.page, place.names]).toEqual(['task', [name, 'p/1']]);
    expect(Object.fromEntries(place.query)).toEqual({ tab: 'a b&c' });
  },
);

test('an address that cannot be read leads to the overview', () => {
  expect([placeOf(''), placeOf('#/'), placeOf('#/queue/%')].map(({ page }) => page)).toEqual([
    'overview',
    'overview',
    'overview',
  ]);
});
