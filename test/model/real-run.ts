import { setTimeout as sleep } from 'node:timers/promises';
import { type Call, History } from '@taskmaster/cli/testing/history';
import { openEngine } from '@taskmaster/engine';
import type { Store } from '@taskmaster/engine/ports';
import { VirtualClock } from '@taskmaster/engine/testing';
import { Callers, isCall } from './callers.ts';
import { type Asked, ask } from './engine-caller.ts';
import { putAllSettings } from './records/settings.ts';
import { subscribeAll } from './records/topics.ts';
import { RETENTION_MS, type Run } from './run-scenario.ts';
import { QUEUES, type Scenario } from './scenario.ts';

/** Longer than the wait of any lease in a scenario. */
const LONGEST_WAIT_MS = 5000;

const STEP_MS = 20;
const nextMillisecond = (): Promise<void> => sleep(1);

/**
 * Plays a scenario on a store that takes real time. Calls between two steps of time run concurrently. Virtual time stops until
 * all calls without a wait have ended, because a real disk takes real time. Disks do not fail here, and clocks are not changed.
 */
export async function runOnRealStore(
  { actions, cacheBytes, refillTasks, jitter, caps }: Scenario,
  openStore: () => Promise<Store>,
): Promise<Run> {
  const history = new History();
  let clock = new VirtualClock();
  const config = {
    cacheBytes,
    minRefillTasks: refillTasks,
    maxRefillTasks: refillTasks,
    emptyQueueRetentionMs: RETENTION_MS,
  };
  const open = async () => {
    const store = await openStore();
    const random = { next: () => jitter };
    return { store, engine: await openEngine({ store, clock, random, config }) };
  };
  let node = await open();
  await putAllSettings(node.engine, caps);
  await subscribeAll(node.engine);
  const asked: Asked['ended'][] = [];
  const waiting: Asked['ended'][] = [];
  const callers = new Callers((call: Call) => {
    const one = ask(node.engine, call, history, () => clock.now(), true);
    (call.kind === 'lease' && call.waitMs > 0 ? waiting : asked).push(one.ended);
    return one;
  });
  // In steps, because the work that a timer starts needs the disk before the next timer is due.
  const pass = async (ms: number, isOver = () => false): Promise<void> => {
    for (let left = ms; left > 0 && !isOver(); left -= STEP_MS) {
      await clock.advance(Math.min(left, STEP_MS));
      await nextMillisecond();
    }
  };
  const ended = async (all: readonly Promise<unknown>[]): Promise<void> => {
    let over = false;
    void Promise.all(all).finally(() => {
      over = true;
    });
    await pass(LONGEST_WAIT_MS, () => over);
  };
  const quiet = (): Promise<void> => ended(asked.splice(0));
  const restart = async (inGoodOrder: boolean): Promise<void> => {
    await quiet();
    callers.dismiss();
    if (inGoodOrder) await node.engine.stop();
    else history.crash(clock.now());
    // The stop has answered the waiting calls, or they are never answered.
    waiting.length = 0;
    clock.stop();
    await node.store.close();
    clock = clock.restart();
    node = await open();
  };
  for (const action of actions) {
    if (isCall(action)) callers.play(action);
    else if (action.do === 'pass') {
      await quiet();
      await pass(action.ms);
    } else if (action.do === 'crash' || action.do === 'restart') await restart(action.do === 'restart');
  }
  await quiet();
  await ended(waiting);
  await restart(true);
  for (const call of [{ kind: 'stats' as const, queues: QUEUES }, ...QUEUES.map((queue) => callers.lookAt(queue))]) {
    await ask(node.engine, call, history, () => clock.now(), true).ended;
  }
  await node.engine.stop();
  await node.store.close();
  const faults = history.openCalls.map(({ call }) => `a call is never answered: ${JSON.stringify(call)}`);
  return { events: history.events, reboots: [], faults };
}
