import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LostError, RefusedError, UpstreamListener, UpstreamPipe } from '../upstream/upstream.ts';

/** A node that accepts streams. It answers a message only when a test says so. */
export interface StreamWorld extends AsyncDisposable {
  /** Opens a stream that has no connection yet. */
  open(listener: UpstreamListener): UpstreamPipe;
  /** Gives the stream its connection. */
  connect(): void;
  /** The messages that the node has read from the stream. */
  readonly received: readonly Uint8Array[];
  /** Lets the node answer its first unanswered message, with one message. */
  answer(): void;
  /** Number of streams that have ended for the node. */
  readonly closed: number;
  /** Ends the process of the node at once. */
  stop(): Promise<void>;
}

/** The events of one stream. */
interface Told {
  messages: number;
  drains: number;
  readonly ends: (RefusedError | LostError)[];
}

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1');

/** The contract suite of `Upstream` for streams. */
export function streamContract(name: string, start: () => Promise<StreamWorld>): void {
  describe(`${name} keeps the contract of streams to a node`, () => {
    let world: StreamWorld;
    let told: Told;
    let pipe: UpstreamPipe;
    beforeEach(async () => {
      world = await start();
      // Of this stream only: the end of the previous one may be told now.
      const mine: Told = { messages: 0, drains: 0, ends: [] };
      told = mine;
      pipe = world.open({
        onMessage: () => mine.messages++,
        onDrain: () => mine.drains++,
        onEnd: (failure) => mine.ends.push(failure),
      });
    });
    afterEach(async () => {
      await world[Symbol.asyncDispose]();
    });

    /** Writes messages. Resolves when the node has read them. */
    const write = async (...messages: readonly string[]): Promise<void> => {
      const before = world.received.length;
      for (const message of messages) pipe.write(Buffer.from(message));
      world.connect();
      await expect.poll(() => world.received.length).toBe(before + messages.length);
    };

    test('messages arrive in order, including those that were written before the connection', async () => {
      await write('1', '2');
      await write('3');
      expect(world.received.map(text)).toEqual(['1', '2', '3']);
    });

    test('a drain follows each write that has to wait', async () => {
      expect(pipe.write(Buffer.from('1'))).toBe(false);
      world.connect();
      await expect.poll(() => told.drains).toBeGreaterThan(0);
      expect(pipe.write(Buffer.from('2'))).toBe(true);
    });

    test('answers are delivered, and those that were held back when they may be', async () => {
      await write('1', '2');
      world.answer();
      await expect.poll(() => told.messages).toBe(1);
      pipe.hold(true);
      world.answer();
      pipe.hold(false);
      await expect.poll(() => told.messages).toBe(2);
    });

    test.each(['end', 'abort'] as const)('after %s the node is told, and nothing is heard any more', async (way) => {
      await write('1');
      world.answer();
      await expect.poll(() => told.messages).toBe(1);
      // `end` is only for a stream whose calls are all answered.
      if (way === 'abort') await write('2');
      pipe[way]();
      await expect.poll(() => world.closed).toBe(1);
      world.answer();
      await world.stop();
      expect([told.messages, told.ends]).toEqual([1, []]);
      expect(pipe.write(Buffer.from('late'))).toBe(true);
      pipe.end();
      pipe.abort();
    });

    test('the end of a node is reported once, as a lost connection', async () => {
      await write('1');
      await world.stop();
      await expect.poll(() => told.ends.length).toBe(1);
      expect(told.ends[0]).toMatchObject({ name: 'LostError', kind: 'connection', maybeApplied: true });
      expect(pipe.write(Buffer.from('late'))).toBe(true);
      pipe.end();
      pipe.abort();
      expect(told.ends).toHaveLength(1);
    });
  });
}
