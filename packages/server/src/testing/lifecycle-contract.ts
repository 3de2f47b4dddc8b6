import { afterEach, beforeEach, describe, expect, test } from 'vitest';

/** A call that a server has received. */
export interface CallInFlight {
  /** Resolves with the answer or the refusal. Rejects if the connection broke before either came. */
  readonly answered: Promise<unknown>;
  /** Lets the server answer. A call that ends when the server stops does not need it. */
  finish(): void;
}

/** A server or a program that serves. Each start is at the same address. */
export interface LifecycleWorld extends AsyncDisposable {
  /** Resolves when calls are served. May reject if it is stopped before. */
  start(): Promise<void>;
  /** Resolves when everything has ended. */
  stop(): Promise<void>;
  /** Whether calls are accepted now. */
  accepts(): Promise<boolean>;
  /** Resolves when the server has received the call. */
  call(): Promise<CallInFlight>;
  /** Advances time until the promise settles. Only one call at a time. */
  settle<T>(promise: Promise<T>): Promise<T>;
}

/** What every server and every program that serves must do when it is started and stopped. */
export function lifecycleContract(name: string, open: () => Promise<LifecycleWorld>): void {
  describe(`${name} keeps the contract of start and stop`, () => {
    let world: LifecycleWorld;
    beforeEach(async () => {
      world = await open();
    });
    afterEach(async () => {
      await world[Symbol.asyncDispose]();
    });

    const start = () => world.settle(world.start());
    const stop = () => world.settle(world.stop());
    const accepts = () => world.settle(world.accepts());

    test('serves once it has started, and finishes the calls in flight when it stops', async () => {
      await start();
      expect(await accepts()).toBe(true);
      const { finish, answered } = await world.settle(world.call());
      const stopped = world.stop();
      await expect.poll(accepts).toBe(false);
      finish();
      await world.settle(answered);
      await world.settle(stopped);
    });

    test('stops once, however often it is told, accepts nothing then, and can be started again', async () => {
      await start();
      await world.settle(Promise.all([world.stop(), world.stop()]));
      await stop();
      expect(await accepts()).toBe(false);
      await start();
      expect(await accepts()).toBe(true);
      await stop();
    });

    test('may be stopped while it starts', async () => {
      const started = world.start();
      const settled = started.catch(() => {});
      await stop();
      await world.settle(settled);
      expect(await accepts()).toBe(false);
    });
  });
}

/** What servers must do whose calls may take longer than their shutdown timeout. */
export function lifecycleTimeoutContract(name: string, open: () => Promise<LifecycleWorld>): void {
  test(`${name} does not wait longer than its timeout for a call that does not end`, async () => {
    await using world = await open();
    await world.settle(world.start());
    const { answered } = await world.settle(world.call());
    const broken = expect(answered).rejects.toThrow();
    await world.settle(world.stop());
    await broken;
  });
}
