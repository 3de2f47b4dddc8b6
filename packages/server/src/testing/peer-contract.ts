import { Refusal } from '@taskmaster/engine/domain';
import { limits, type SendRowsRequest, TransferredRowKind } from '@taskmaster/proto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  type CallPeer,
  type PeerHandlers,
  PeerMessageTooLongError,
  PeerUnreachableError,
} from '../ports/peer-network.ts';

/** Two methods stand for all: one carries bytes, and the answer of the other has a field. */
type PeerContractMethod = 'sendRows' | 'resolveOffer';

/** A node that calls another one. */
export interface PeerWorld extends AsyncDisposable {
  readonly call: CallPeer<PeerContractMethod>;
  /** The address of the called node. */
  readonly address: string;
  /** An address where no process listens. */
  readonly nowhere: string;
  /** The handlers of the called node. Undefined: it is not a member yet. */
  handlers: PeerHandlers<PeerContractMethod> | undefined;
  /** Ends the process of the node at once. */
  stop(): Promise<void>;
  /** Starts it again at the same address. */
  start(): Promise<void>;
  /** Advances time until the promise settles. Only one call at a time. */
  settle<T>(promise: Promise<T>): Promise<T>;
  /** Advances time by this many ms. */
  pass(ms: number): Promise<void>;
}

const WITHIN = { timeoutMs: 5_000 };
const RESOLVE = { partition: 3, epoch: 7, target: 'b' };

const rows = (...values: readonly Buffer[]): SendRowsRequest => ({
  transfer: 't',
  sequence: 1,
  rows: values.map((value, index) => ({
    kind: TransferredRowKind.TRANSFERRED_ROW_KIND_DATA,
    queueId: 1,
    key: Buffer.from(`${index}`),
    value,
    window: 0,
  })),
});

/** What every implementation of `CallPeer` must do. */
export function peerContract(name: string, open: () => Promise<PeerWorld>): void {
  describe(`${name} keeps the contract of calls between nodes`, () => {
    let world: PeerWorld;
    let received: SendRowsRequest[];
    beforeEach(async () => {
      world = await open();
      received = [];
      world.handlers = {
        sendRows: async (request) => {
          received.push(request);
          return {};
        },
        resolveOffer: async ({ epoch }) => ({ taken: epoch === 7 }),
      };
    });
    afterEach(async () => {
      await world[Symbol.asyncDispose]();
    });

    const handle = (change: Partial<PeerHandlers<PeerContractMethod>>): void => {
      if (world.handlers) world.handlers = { ...world.handlers, ...change };
    };
    const call = (options: Partial<Parameters<CallPeer>[3]> = {}): Promise<{ readonly taken: boolean }> => {
      const answered = world.call(world.address, 'resolveOffer', RESOLVE, { ...WITHIN, ...options });
      // A test may handle the rejection later.
      answered.catch(() => {});
      return answered;
    };
    const resolveOffer = (options: Partial<Parameters<CallPeer>[3]> = {}) => world.settle(call(options));
    const sendRows = (request: SendRowsRequest) => world.settle(world.call(world.address, 'sendRows', request, WITHIN));
    /** A call that is never answered. Resolves when the node has received it. */
    const hang = (): Promise<void> => {
      const asked = Promise.withResolvers<void>();
      handle({
        resolveOffer: () => {
          asked.resolve();
          return new Promise(() => {});
        },
      });
      return asked.promise;
    };

    test('a request and its answer arrive unchanged', async () => {
      const every = Buffer.from(Uint8Array.from({ length: 256 }, (_, index) => index));
      expect(await sendRows(rows(every, Buffer.alloc(0)))).toEqual({});
      expect(received).toMatchObject([{ transfer: 't', sequence: 1 }]);
      expect(received[0]?.rows.map(({ key, value }) => [String(Buffer.from(key)), [...value]])).toEqual([
        ['0', [...every]],
        ['1', []],
      ]);
      expect(await resolveOffer()).toEqual({ taken: true });
    });

    test('a later change of a message does not reach the other side', async () => {
      const value = Buffer.from('first');
      await sendRows(rows(value));
      value.fill(0);
      expect(String(Buffer.from(received[0]?.rows[0]?.value ?? []))).toBe('first');
      const answer = { taken: true };
      handle({ resolveOffer: async () => answer });
      const seen = await resolveOffer();
      answer.taken = false;
      expect(seen).toEqual({ taken: true });
    });

    test('a row of the largest task arrives', async () => {
      await sendRows(rows(Buffer.alloc(limits.dataBytes, 'x')));
      expect(received[0]?.rows[0]?.value).toHaveLength(limits.dataBytes);
    });

    test('a message that is too long is not served, and the caller gets an error of its own', async () => {
      const long = rows(Buffer.alloc(2 * limits.requestBytes));
      await expect(sendRows(long)).rejects.toBeInstanceOf(PeerMessageTooLongError);
      expect(received).toEqual([]);
    });

    test('a refusal is the answer, with its reason, message and metadata', async () => {
      handle({
        resolveOffer: async () => {
          throw new Refusal('INVALID_ARGUMENT', 'no such offer', { metadata: { epoch: '7' } });
        },
      });
      const refused = resolveOffer();
      await expect(refused).rejects.toBeInstanceOf(Refusal);
      const said = { reason: 'INVALID_ARGUMENT', message: 'no such offer', metadata: { epoch: '7' } };
      await expect(refused).rejects.toMatchObject(said);
    });

    test('an internal fault of the node is a refusal that hides the cause', async () => {
      handle({
        resolveOffer: async () => {
          throw new TypeError('secret');
        },
      });
      const refused = resolveOffer();
      await expect(refused).rejects.toBeInstanceOf(Refusal);
      await expect(refused).rejects.toMatchObject({
        reason: 'INTERNAL',
        message: expect.not.stringContaining('secret'),
      });
    });

    test('a node that is not a member yet refuses', async () => {
      world.handlers = undefined;
      await expect(resolveOffer()).rejects.toMatchObject({ reason: 'STARTING' });
    });

    test('an absent node is unreachable', async () => {
      const asked = world.call(world.nowhere, 'resolveOffer', RESOLVE, WITHIN);
      await expect(world.settle(asked)).rejects.toBeInstanceOf(PeerUnreachableError);
    });

    test('a node that ends before it answers is unreachable until it is started again', async () => {
      const asked = hang();
      const unanswered = call();
      await world.settle(asked);
      await world.stop();
      await expect(world.settle(unanswered)).rejects.toBeInstanceOf(PeerUnreachableError);
      await expect(resolveOffer()).rejects.toBeInstanceOf(PeerUnreachableError);
      await world.start();
      handle({ resolveOffer: async () => ({ taken: false }) });
      expect(await resolveOffer({ waitForConnection: true })).toEqual({ taken: false });
    });

    test('a node that does not answer in time is unreachable', async () => {
      void hang();
      await expect(resolveOffer({ timeoutMs: 200 })).rejects.toBeInstanceOf(PeerUnreachableError);
    });

    test('a call that may wait for a connection gets one when the node starts', async () => {
      await world.stop();
      const answered = call({ waitForConnection: true });
      await world.pass(300);
      await world.start();
      expect(await world.settle(answered)).toEqual({ taken: true });
      await world.stop();
      await expect(resolveOffer({ waitForConnection: true, timeoutMs: 300 })).rejects.toBeInstanceOf(
        PeerUnreachableError,
      );
    });

    test('a cancelled call rejects, and one that is cancelled before it is sent does not arrive', async () => {
      const asked = hang();
      const giveUp = new AbortController();
      const unanswered = call({ signal: giveUp.signal });
      await world.settle(asked);
      giveUp.abort(new Error('given up'));
      await expect(world.settle(unanswered)).rejects.toThrow();
      const aborted = world.call(world.address, 'sendRows', rows(), { ...WITHIN, signal: giveUp.signal });
      await expect(world.settle(aborted)).rejects.toThrow('given up');
      expect(received).toEqual([]);
    });
  });
}
