import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { Turnstile, type TurnstileOptions, type Visitor } from './turnstile.ts';

const visitor = (tenant: string, connection = tenant): Visitor => ({ tenant, connection });

/** Work that runs until it is ended. Enough turns of the event loop pass to start all that may start. */
function setUp(options: Partial<TurnstileOptions> = {}) {
  const turnstile = new Turnstile({ places: 4, ofTenant: 4, ofConnection: 4, ...options });
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const all: Promise<void>[] = [];
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 20; turn++) await nextTurn();
  };
  return {
    begun,
    settle,
    ask(name: string, from: Visitor): void {
      all.push(
        turnstile.pass(from, () => {
          begun.push(name);
          return new Promise((resolve) => ends.set(name, resolve));
        }),
      );
    },
    async end(name: string): Promise<void> {
      ends.get(name)?.();
      await settle();
    },
    all: () => Promise.all(all),
  };
}

describe('a turnstile', () => {
  test('runs as much at a time as it has places, in order, and forgets none', async () => {
    const { ask, begun, settle, end, all } = setUp({ places: 2 });
    for (const name of ['a', 'b', 'c', 'd']) ask(name, visitor('one'));
    await settle();
    expect(begun).toEqual(['a', 'b']);
    await end('b');
    expect(begun).toEqual(['a', 'b', 'c']);
    for (const name of ['a', 'c', 'd']) await end(name);
    await all();
    expect(begun).toEqual(['a', 'b', 'c', 'd']);
  });

  test('keeps places free of a connection, and of a tenant with many connections', async () => {
    const { ask, begun, settle } = setUp({ places: 4, ofTenant: 3, ofConnection: 2 });
    for (let call = 0; call < 100; call++) ask(`busy ${call}`, visitor('busy', 'first'));
    await settle();
    expect(begun).toEqual(['busy 0', 'busy 1']);
    ask('same host', visitor('busy', 'second'));
    await settle();
    expect(begun.at(-1)).toBe('same host');
    for (let call = 0; call < 100; call++) ask(`many ${call}`, visitor('busy', `connection ${call}`));
    await settle();
    expect(begun).toHaveLength(3);
    ask('other', visitor('other'));
    await settle();
    expect(begun.at(-1)).toBe('other');
  });

  test('gives tenants their turns, and the connections of one', async () => {
    const { ask, begun, settle, end } = setUp({ places: 1 });
    for (const name of ['a1', 'a2', 'a3']) ask(name, visitor('a', 'first'));
    ask('a4', visitor('a', 'second'));
    for (const name of ['b1', 'b2']) ask(name, visitor('b'));
    await settle();
    for (let at = 0; at < 6; at++) await end(begun.at(-1) ?? '');
    expect(begun).toEqual(['a1', 'a2', 'b1', 'a4', 'b2', 'a3']);
  });

  test('starts work that never waits in different turns of the event loop', async () => {
    const turnstile = new Turnstile({ places: 8, ofTenant: 8, ofConnection: 8 });
    let done = 0;
    const all = Array.from({ length: 10 }, () =>
      turnstile.pass(visitor('a'), async () => {
        done++;
      }),
    );
    await nextTurn();
    expect(done).toBeLessThan(5);
    await Promise.all(all);
    expect(done).toBe(10);
  });

  test('makes room after failed work, too', async () => {
    const turnstile = new Turnstile({ places: 1, ofTenant: 1, ofConnection: 1 });
    await expect(turnstile.pass(visitor('a'), () => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
    expect(await turnstile.pass(visitor('a'), async () => 'next')).toBe('next');
  });
});
