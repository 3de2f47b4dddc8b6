import { AsyncLocalStorage } from 'node:async_hooks';
import { textOf } from './thrown.ts';
import { warn } from './warnings.ts';

/**
 * A hook or a handler, if it is given, that runs in the asynchronous context of now, wherever it is called.
 * @throws TypeError if it is something else than a function.
 */
export function inContext<Hook extends ((...args: never[]) => unknown) | undefined>(name: string, hook: Hook): Hook {
  if (hook === undefined) return hook;
  if (typeof hook !== 'function') throw new TypeError(`${name}: must be a function`);
  return AsyncLocalStorage.bind(hook) as Hook;
}

type ArgsOf<Hook> = Hook extends (...args: infer Args) => unknown ? Args : never;

/**
 * Calls a hook of the caller, if it is given. If it throws or rejects, a warning says so, and the client goes on: a mistake in a
 * hook must not end a process that works on tasks.
 */
export function callHook<Hooks extends object, Name extends keyof Hooks & string>(
  hooks: Hooks,
  name: Name,
  ...args: ArgsOf<NonNullable<Hooks[Name]>>
): void {
  const hook = hooks[name] as ((...args: ArgsOf<NonNullable<Hooks[Name]>>) => unknown) | undefined;
  if (hook === undefined) return;
  if (typeof hook !== 'function') {
    hookFailed(callHook, name, new TypeError('it must be a function'));
    return;
  }
  try {
    const returned = hook(...args);
    if (typeof returned === 'object' && returned !== null && 'then' in returned) {
      Promise.resolve(returned).catch((error: unknown) => hookFailed(hook, name, error));
    }
  } catch (error) {
    hookFailed(hook, name, error);
  }
}

/** How often each hook has failed. */
const failures = new WeakMap<object, number>();

/** Warns of the 1st, the 10th, the 100th failure, and so on: a hook may fail for every task. */
function hookFailed(hook: object, name: string, error: unknown): void {
  const count = (failures.get(hook) ?? 0) + 1;
  failures.set(hook, count);
  if (!Number.isInteger(Math.log10(count))) return;
  const times = count === 1 ? '' : ` for the ${count}th time`;
  warn('TASKMASTER_HOOK_FAILED', `the hook ${name} has failed${times}: ${textOf(error)}`, error);
}
