import { expect, onTestFinished, test } from 'vitest';
import { settled } from '../testing/manual-timing.ts';
import { only } from '../testing/only.ts';
import { callHook, inContext } from './hooks.ts';

/** The warnings of this process until the end of the test. */
function warnings(): { readonly code: string | undefined; readonly message: string }[] {
  const heard: { code: string | undefined; message: string }[] = [];
  const onWarning = ({ message, code }: Error & { code?: string }): void => void heard.push({ code, message });
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  return heard;
}

test.each([
  [
    'throws',
    () => {
      throw new Error('oops');
    },
  ],
  ['rejects', () => Promise.reject(new Error('oops'))],
])('a hook that %s is reported, and ends nothing', async (_how, onDone) => {
  const heard = warnings();
  callHook({ onDone }, 'onDone');
  await settled();
  expect(heard).toEqual([{ code: 'TASKMASTER_HOOK_FAILED', message: 'the hook onDone has failed: Error: oops' }]);
});

test('a hook that is no function is refused, or reported where it is called', async () => {
  expect(() => inContext('onDone', 'log' as never)).toThrow(new TypeError('onDone: must be a function'));
  const heard = warnings();
  callHook({ onDone: 'log' as never as () => void }, 'onDone');
  await settled();
  expect(heard.map(({ message }) => message)).toEqual(['the hook onDone has failed: TypeError: it must be a function']);
});

test('a hook that fails for every task is reported less and less often', async () => {
  const heard = warnings();
  const onDone = () => {
    throw new Error('oops');
  };
  for (let task = 0; task < 1_000; task++) callHook({ onDone }, 'onDone');
  await settled();
  expect(heard.map(({ message }) => message)).toEqual([
    'the hook onDone has failed: Error: oops',
    'the hook onDone has failed for the 10th time: Error: oops',
    'the hook onDone has failed for the 100th time: Error: oops',
    'the hook onDone has failed for the 1000th time: Error: oops',
  ]);
});

test('without a hook there is nothing to bind', () => {
  expect(inContext('hook', undefined)).toBeUndefined();
  expect(only([inContext('hook', (a: number) => a + 1)])(1)).toBe(2);
});
