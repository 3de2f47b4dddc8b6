import { status } from '@grpc/grpc-js';
import { SeededRandom, VirtualClock } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';
import { FakeUpstream, lost, refused, unsent } from '../../testing/fake-upstream.ts';
import { FixedRoutes } from '../../testing/fixed-routes.ts';
import { LostError } from '../../upstream/upstream.ts';
import { Router } from './router.ts';

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const bytes = (text: string): Uint8Array => Buffer.from(text);

/** The messages of a node, and at the end its error, if there is one. */
type Script = readonly (string | Error)[];

/** Two nodes, of which the first holds every partition. Each attempt plays the next script. */
function setUp(...scripts: Script[]) {
  const clock = new VirtualClock();
  const nodes = ['a', 'b'].map((name) => ({ nodeId: name, name, address: `${name}:1`, alive: true }));
  const routes = new FixedRoutes({ nodes, partitions: 4, holder: () => 0 });
  const router = new Router({ routes, upstream: new FakeUpstream(), clock, random: new SeededRandom(1), log: SILENT });
  const asked: string[] = [];
  let ended = 0;
  async function* open(address: string): AsyncGenerator<Uint8Array, undefined> {
    asked.push(address);
    try {
      for (const line of scripts.shift() ?? []) {
        if (line instanceof Error) throw line;
        yield bytes(line);
      }
    } finally {
      ended++;
    }
  }
  const caller = { gone: false, signal: undefined, until: undefined };
  const stream = (change: Partial<typeof caller> = {}) => router.streamFromHolder(2, open, { ...caller, ...change });
  const read = async (): Promise<string[]> => {
    const messages: string[] = [];
    for await (const message of stream()) messages.push(Buffer.from(message).toString());
    return messages;
  };
  return { clock, router, routes, asked, stream, read: () => clock.run(read()), ended: () => ended };
}

const movedTo = (address: string, epoch: number) =>
  refused('NOT_HOLDER', status.FAILED_PRECONDITION, {
    metadata: { partition: '2', holder: address, node_id: address.slice(0, 1), epoch: String(epoch) },
  });

describe('a stream of the holder of a partition', () => {
  test('passes all messages on, in order', async () => {
    const { read, asked } = setUp(['1', '2', '3']);
    expect(await read()).toEqual(['1', '2', '3']);
    expect(asked).toEqual(['a:1']);
  });

  test('follows the partition before the first message', async () => {
    const { read, asked } = setUp([movedTo('b:1', 2)], ['1']);
    expect(await read()).toEqual(['1']);
    expect(asked).toEqual(['a:1', 'b:1']);
  });

  test.each([
    ['the partition moves', refused('PARTITION_MOVING', status.UNAVAILABLE)],
    ['the holder cannot be reached', unsent()],
    ['the connection breaks', lost()],
  ])('is tried again if %s before the first message', async (_, failure) => {
    const { read, asked, router } = setUp([failure], ['1']);
    expect(await read()).toEqual(['1']);
    expect(asked).toEqual(['a:1', 'a:1']);
    expect(router.figures).toMatchObject({ repeated: 1, held: 0 });
  });

  test('is not tried again after the first message', async () => {
    const { read, asked } = setUp(['1', lost()], ['1']);
    await expect(read()).rejects.toMatchObject({ reason: 'BACKUP_BROKEN', metadata: { partition: '2' } });
    expect(asked).toEqual(['a:1']);
  });

  test.each([
    ['the reason of the holder', refused('BACKUP_TOO_SLOW', status.RESOURCE_EXHAUSTED), 'BACKUP_TOO_SLOW'],
    ['CANCELLED', new LostError('given up', 'cancelled', true), 'CANCELLED'],
  ])('ends after the first message with %s', async (_, failure, reason) => {
    const { read } = setUp(['1', failure]);
    await expect(read()).rejects.toMatchObject({ reason });
  });

  test('is refused at once if the holder refuses it', async () => {
    const { read, asked } = setUp([refused('TOO_MANY_BACKUPS', status.RESOURCE_EXHAUSTED, { retryDelayMs: 7 })]);
    await expect(read()).rejects.toMatchObject({ reason: 'TOO_MANY_BACKUPS' });
    expect(asked).toEqual(['a:1']);
  });

  test('is refused in the end if no node holds the partition', async () => {
    const { read, routes, clock } = setUp();
    routes.set(2, undefined, 9);
    const began = clock.now();
    await expect(read()).rejects.toMatchObject({ reason: 'HOLDER_UNREACHABLE' });
    expect(clock.now() - began).toBeLessThanOrEqual(2_000);
  });

  test('is not tried again for a caller that is gone', async () => {
    const { stream, clock, asked } = setUp([lost()], ['1']);
    await expect(clock.run(stream({ gone: true }).next())).rejects.toMatchObject({ reason: 'CANCELLED' });
    expect(asked).toEqual(['a:1']);
  });

  test('ends at the holder when it is given up', async () => {
    const { stream, clock, ended } = setUp(['1', '2']);
    const messages = stream();
    await clock.run(messages.next());
    expect(ended()).toBe(0);
    await messages.return(undefined);
    expect(ended()).toBe(1);
  });
});
