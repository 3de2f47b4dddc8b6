import { status } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import { unlimitedAccess } from '@taskmaster/server/access';
import type { UnaryCaller, UnaryHandler } from '@taskmaster/server/calls';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LostError, RefusedError, type UnaryMethod, type Upstream } from '../upstream/upstream.ts';

/** A node that a router calls. */
export interface UpstreamWorld extends AsyncDisposable {
  readonly upstream: Upstream;
  /** The address of the node. */
  readonly address: string;
  /** Answers every unary call to the node. */
  serve: UnaryHandler;
  /** Lets time pass until the promise settles. Only one call at a time. */
  settle<T>(promise: Promise<T>): Promise<T>;
}

/** A node on the other side of a network. */
export interface NetworkedUpstreamWorld extends UpstreamWorld {
  /** An address where no process listens. */
  readonly nowhere: string;
  /** Ends the process of the node at once. */
  stop(): Promise<void>;
}

const PEER = { address: '10.1.2.3:4', principal: '' };
const WITHIN_MS = 5_000;
const REQUEST = Buffer.from([0x0a, 0x03, 0x00, 0x80, 0xff]);

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1');

interface CallOptions {
  readonly address?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Calls in a world. */
class RouterCalls {
  readonly world: UpstreamWorld;

  constructor(world: UpstreamWorld) {
    this.world = world;
  }

  call(method: UnaryMethod, options: CallOptions = {}): Promise<Uint8Array> {
    const { address = this.world.address, timeoutMs = WITHIN_MS, signal } = options;
    const answered = this.world.upstream.unary(address, method, REQUEST, {
      peer: PEER,
      access: unlimitedAccess,
      timeoutMs,
      signal,
    });
    // A test may handle the rejection later.
    answered.catch(() => {});
    return answered;
  }

  failure(answered: Promise<unknown>): Promise<unknown> {
    const failed = answered.then(
      () => 'no failure',
      (thrown: unknown) => thrown,
    );
    return this.world.settle(failed);
  }

  /** Lets the node answer with the result of `end`. Resolves when the node has received a call. */
  answerLater(end: (caller: UnaryCaller) => Promise<Uint8Array>): Promise<void> {
    const asked = Promise.withResolvers<void>();
    this.world.serve = (_, caller) => {
      asked.resolve();
      return end(caller);
    };
    return asked.promise;
  }
}

const never = (): Promise<never> => new Promise(() => {});

/** The contract suite of `Upstream` for unary calls. */
export function upstreamContract(name: string, open: () => Promise<UpstreamWorld>): void {
  describe(`${name} keeps the contract of calls from a router`, () => {
    let world: UpstreamWorld;
    let router: RouterCalls;
    beforeEach(async () => {
      world = await open();
      router = new RouterCalls(world);
    });
    afterEach(async () => {
      await world[Symbol.asyncDispose]();
    });

    test('a request, its answer and the peer arrive unchanged', async () => {
      const seen: unknown[] = [];
      world.serve = async (request, { address, routed, gone }) => {
        seen.push([textOf(request), address, routed, gone]);
        return Buffer.from('answer');
      };
      expect(textOf(await world.settle(router.call('UpdateTasks')))).toBe('answer');
      expect(seen).toEqual([[textOf(REQUEST), PEER.address, true, false]]);
    });

    test('a refusal is the answer, with its reason, message, metadata and delay', async () => {
      world.serve = async () => {
        throw new Refusal('NOT_HOLDER', 'ask another node', { metadata: { holder: 'c:1' }, retryDelayMs: 70 });
      };
      const refused = await router.failure(router.call('UpdateTasks'));
      expect(refused).toBeInstanceOf(RefusedError);
      expect(refused).toMatchObject({
        error: {
          reason: 'NOT_HOLDER',
          message: 'ask another node',
          code: status.FAILED_PRECONDITION,
          metadata: { holder: 'c:1' },
          retryDelayMs: 70,
        },
      });
    });

    test('an internal fault of the node is a refusal that hides the cause', async () => {
      world.serve = async () => {
        throw new TypeError('secret');
      };
      const refused = await router.failure(router.call('GetTasks'));
      expect(refused).toBeInstanceOf(RefusedError);
      expect(refused).toMatchObject({
        error: { reason: 'INTERNAL', message: expect.not.stringContaining('secret') },
      });
    });

    test('a cancelled lease is lost, and the node is told', async () => {
      const told = Promise.withResolvers<void>();
      const asked = router.answerLater(
        ({ signal }) =>
          new Promise((_, reject) => {
            signal?.addEventListener('abort', () => {
              told.resolve();
              reject(new Refusal('CANCELLED', 'the call was cancelled'));
            });
          }),
      );
      const giveUp = new AbortController();
      const given = router.call('LeaseTasks', { signal: giveUp.signal });
      await world.settle(asked);
      giveUp.abort();
      expect(await router.failure(given)).toMatchObject({ name: 'LostError', kind: 'cancelled', maybeApplied: true });
      await world.settle(told.promise);
    });

    test('any other call continues after a cancellation', async () => {
      const answer = Promise.withResolvers<Uint8Array>();
      const asked = router.answerLater(() => answer.promise);
      const giveUp = new AbortController();
      const given = router.call('UpdateTasks', { signal: giveUp.signal });
      await world.settle(asked);
      giveUp.abort();
      answer.resolve(Buffer.from('done'));
      expect(textOf(await world.settle(given))).toBe('done');
    });

    test('a call that is cancelled before it begins does not arrive', async () => {
      const methods: UnaryMethod[] = ['LeaseTasks', 'UpdateTasks'];
      let calls = 0;
      world.serve = async () => {
        calls++;
        return Buffer.alloc(0);
      };
      for (const method of methods) {
        const lost = await router.failure(router.call(method, { signal: AbortSignal.abort() }));
        expect(lost).toMatchObject({ name: 'LostError', kind: 'cancelled', maybeApplied: false });
      }
      expect(calls).toBe(0);
    });
  });
}

/** The contract suite of an `Upstream` that crosses a network. It includes `upstreamContract`. */
export function networkedUpstreamContract(name: string, open: () => Promise<NetworkedUpstreamWorld>): void {
  upstreamContract(name, open);
  describe(`${name} reports which calls may have been carried out`, () => {
    let world: NetworkedUpstreamWorld;
    let router: RouterCalls;
    beforeEach(async () => {
      world = await open();
      router = new RouterCalls(world);
    });
    afterEach(async () => {
      await world[Symbol.asyncDispose]();
    });

    test('an absent node has certainly not carried the call out', async () => {
      const lost = await router.failure(router.call('UpdateTasks', { address: world.nowhere }));
      expect(lost).toBeInstanceOf(LostError);
      expect(lost).toMatchObject({ kind: 'connection', maybeApplied: false });
    });

    test('a node that ends before it answers may have carried the call out', async () => {
      const asked = router.answerLater(never);
      const unanswered = router.call('UpdateTasks');
      await world.settle(asked);
      await world.stop();
      expect(await router.failure(unanswered)).toMatchObject({ name: 'LostError', maybeApplied: true });
      expect(await router.failure(router.call('UpdateTasks'))).toMatchObject({ name: 'LostError', kind: 'connection' });
    });

    test('a call may have been carried out after its deadline', async () => {
      void router.answerLater(never);
      const lost = await router.failure(router.call('UpdateTasks', { timeoutMs: 200 }));
      expect(lost).toMatchObject({ name: 'LostError', kind: 'deadline', maybeApplied: true });
    });
  });
}
