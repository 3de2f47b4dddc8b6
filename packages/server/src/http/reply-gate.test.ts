import { expect, test } from 'vitest';
import { ReplyGate } from './reply-gate.ts';

const NEVER = new AbortController().signal;
const cut = (): void => {};

test('slow replies for one host leave room for another, and its own come one after the other', async () => {
  const gate = new ReplyGate({ making: 2, makingForHost: 1, unreadBytes: 100, patienceMs: 1_000 });
  const begun: string[] = [];
  const enter = async (host: string, name: string) => {
    const slot = await gate.enter(host, cut, NEVER);
    begun.push(name);
    return slot;
  };
  const first = await enter('busy', 'busy 1');
  const second = enter('busy', 'busy 2');
  const third = enter('busy', 'busy 3');
  const other = await enter('other', 'other');
  expect(begun).toEqual(['busy 1', 'other']);
  other?.[Symbol.dispose]();
  first?.[Symbol.dispose]();
  (await second)?.[Symbol.dispose]();
  (await third)?.[Symbol.dispose]();
  expect(begun).toEqual(['busy 1', 'other', 'busy 2', 'busy 3']);
});
