import { type Instant, type PartitionId, Refusal } from '@taskmaster/engine/domain';
import { keptLog, pidsOf } from '@taskmaster/engine/testing';
import {
  DATA_FORMAT,
  encodeToBuffer,
  type OfferPartitionRequest,
  partitionOf,
  SendAtomsRequest,
  SendRowsRequest,
} from '@taskmaster/proto';
import { type PeerHandlers, PeerMessageTooLongError } from '@taskmaster/server/ports';
import { servePeer } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { TwoNodes } from '../../../testing/two-nodes.ts';

const QUEUE = 'orders#new';
const P = partitionOf('orders', 4) as PartitionId;
const TO_A = { nodeId: 'a', address: 'a' };
const TO_B = { nodeId: 'b', address: 'b' };

async function open(options: ConstructorParameters<typeof TwoNodes>[0] = {}): Promise<TwoNodes> {
  const nodes = new TwoNodes({ writeMs: 1, syncMs: 1, readMs: 1, ...options });
  await nodes.open();
  return nodes;
}

const handOver = (nodes: TwoNodes) => nodes.run(Promise.resolve(nodes.a.handOffs?.send(P, TO_B)));

const bytesOf = <T>(type: Parameters<typeof encodeToBuffer<T>>[0], message: T): number =>
  encodeToBuffer(type, message).length;

describe('a partition that is handed over', () => {
  test('is served by the other node, and the first one tells callers where it is', async () => {
    const nodes = await open();
    const { a, b } = nodes;
    a.partitions.locate(() => ({ nodeId: 'b', address: 'host-b:1', epoch: 2 }));
    await nodes.run(a.h.enqueue(QUEUE, ['1', '2', '3']));
    await handOver(nodes);
    expect(nodes.serving(P)).toEqual(['b']);
    expect(pidsOf(await nodes.run(b.h.lease(QUEUE, { max: 10 })))).toEqual(['1', '2', '3']);
    await expect(nodes.run(a.h.lease(QUEUE))).rejects.toMatchObject({
      reason: 'NOT_HOLDER',
      metadata: { holder: 'host-b:1', node_id: 'b', epoch: '2' },
    });
    await expect(nodes.run(a.h.enqueue(QUEUE, ['4']))).rejects.toMatchObject({ reason: 'NOT_HOLDER' });
  });

  test('keeps everything: payloads, leases, delays, attempts, counts, request ids, the FIFO position', async () => {
    const nodes = await open({ bIsAheadMs: 600_000 });
    const { a, b } = nodes;
    await nodes.run(a.h.enqueue(QUEUE, ['1', '2', '3', '4']));
    await nodes.run(a.h.update({ enqueue: [{ queue: QUEUE, pid: '5', delay: 60_000 }] }));
    const [first, second] = await nodes.run(a.h.lease(QUEUE, { max: 2, for: 30_000, worker: 'w' }));
    await nodes.run(a.h.update({ dequeue: [{ queue: QUEUE, pid: '2', token: second?.token }] }));
    const fifo = { enqueue: [{ queue: 'orders#fifo', data: 'x' }], id: 'request-1' };
    const before = await nodes.run(a.h.update(fifo));
    await handOver(nodes);

    expect(await nodes.run(b.h.counts(QUEUE))).toEqual({ available: 2, leased: 1, delayed: 1 });
    expect(await nodes.run(b.h.update(fifo))).toEqual(before);
    const [again] = await nodes.run(b.h.lease('orders#fifo'));
    expect(again?.pid).toBe(before.enqueued[0]?.pid);
    // The lease keeps its length although the clocks differ by ten minutes.
    await nodes.time.advance(20_000);
    expect(pidsOf(await nodes.run(b.h.lease(QUEUE, { max: 10 })))).toEqual(['3', '4']);
    await nodes.run(b.h.update({ renew: [{ queue: QUEUE, pid: '1', token: first?.token, for: 5_000 }] }));
    await nodes.time.advance(6_000);
    const [expired] = await nodes.run(b.h.lease(QUEUE));
    expect(expired).toMatchObject({ pid: '1', attempt: 2 });
    expect(Buffer.from(expired?.data ?? []).toString()).toBe('data of 1');
    expect(expired?.token).toBeGreaterThan(first?.token ?? 0);
    await nodes.time.advance(35_000);
    expect(await nodes.run(b.h.counts(QUEUE))).toMatchObject({ delayed: 0 });
  });

  test('is frozen when the disks are quick: callers do not wait for a busy disk', async () => {
    const nodes = await open();
    const { a, b } = nodes;
    await nodes.run(a.h.enqueue(QUEUE, ['1']));
    for (const disk of [a.h.disk, b.h.disk]) {
      const busyUntil = nodes.time.now() + 1_500;
      nodes.faults.request = () => {
        if (nodes.time.now() < busyUntil) disk.stallWrite(300);
      };
      const [from, to] = nodes.serving(P)[0] === 'a' ? [a, TO_B] : [b, TO_A];
      const handed = await nodes.run(Promise.resolve(from.handOffs?.send(P, to)));
      expect(handed?.frozenMs).toBeLessThan(40);
      expect(nodes.time.now()).toBeGreaterThanOrEqual(busyUntil);
    }
  });

  test('is frozen without delay if it is empty, because few callers could wait', async () => {
    const nodes = await open();
    const began = nodes.time.now();
    nodes.faults.request = () => {
      if (nodes.time.now() < began + 3_000) nodes.b.h.disk.stallWrite(100);
    };
    await handOver(nodes);
    expect(nodes.time.now() - began).toBeLessThan(1_500);
  });

  test('moves even if a disk is never quick', async () => {
    const nodes = await open();
    nodes.faults.request = () => nodes.b.h.disk.stallWrite(300);
    await handOver(nodes);
    expect(nodes.serving(P)).toEqual(['b']);
  });

  test('is complete even if it changes all the time', async () => {
    const nodes = await open();
    const { a, b } = nodes;
    const pids = Array.from({ length: 3000 }, (_, i) => `${i}`.padStart(6, '0'));
    for (let from = 0; from < pids.length; from += 500) {
      await nodes.run(a.h.enqueue(QUEUE, pids.slice(from, from + 500)));
    }
    let moving = true;
    const added: string[] = [];
    const taken: string[] = [];
    const change = async (): Promise<void> => {
      for (let i = 0; moving; i++) {
        const pid = `x${i}`.padEnd(6, '-');
        const node = nodes.serving(P)[0] === 'b' ? b : a;
        try {
          await node.h.enqueue(QUEUE, [pid]);
          added.push(pid);
          const [task] = await node.h.lease(QUEUE);
          if (task) await node.h.update({ dequeue: [{ queue: QUEUE, pid: task.pid, token: task.token }] });
          if (task) taken.push(task.pid);
        } catch (error) {
          expect(error).toMatchObject({ reason: 'NOT_HOLDER' });
        }
      }
    };
    const changing = change();
    await handOver(nodes);
    moving = false;
    await nodes.run(changing);
    expect(added.length).toBeGreaterThan(3);
    const left = [...pids, ...added].filter((pid) => !taken.includes(pid)).sort();
    const { available, leased } = await nodes.run(b.h.counts(QUEUE));
    expect(available + leased).toBe(left.length);
    await nodes.time.advance(31_000);
    const leasable = await nodes.run(b.h.lease(QUEUE, { max: 10_000 }));
    expect(pidsOf(leasable)).toEqual(left);
  });

  test('travels in messages of moderate size, even with long names and large changes', async () => {
    const nodes = await open();
    const { a, b } = nodes;
    const names = Array.from({ length: 500 }, (_, i) => `orders#${i}`.padEnd(500, '-'));
    await nodes.run(Promise.all(names.map((name) => a.h.enqueue(name, ['p'.repeat(4000)]))));
    const pids = Array.from({ length: 2000 }, (_, i) => `${i}`.padStart(6, '0'));
    const retry = { maxAttempts: 9, deadLetterQueue: `orders#${'d'.repeat(400)}` };
    await nodes.run(a.h.update({ enqueue: pids.map((pid) => ({ queue: QUEUE, pid, retry })) }));
    let longest = 0;
    nodes.faults.request = (_, method, request) => {
      // One change that is larger than a message may be.
      if (method === 'offerPartition') void a.h.lease(QUEUE, { max: 2000, worker: 'w'.repeat(250) });
      if (method === 'sendRows') longest = Math.max(longest, bytesOf(SendRowsRequest, request as SendRowsRequest));
      if (method === 'sendAtoms') longest = Math.max(longest, bytesOf(SendAtomsRequest, request as SendAtomsRequest));
    };
    await handOver(nodes);
    expect(longest).toBeLessThan(1024 * 1024);
    expect(nodes.serving(P)).toEqual(['b']);
    expect(await nodes.run(b.h.counts(QUEUE))).toEqual({ available: 0, leased: 2000, delayed: 0 });
    expect(await nodes.run(b.h.counts('orders#7'.padEnd(500, '-')))).toMatchObject({ available: 1 });
  });

  test('is not sent repeatedly if the target does not accept a message of that length', async () => {
    const nodes = await open();
    await nodes.run(nodes.a.h.enqueue(QUEUE, ['1']));
    let sent = 0;
    nodes.faults.request = (_, method) => {
      if (method !== 'sendRows') return;
      sent++;
      throw new PeerMessageTooLongError('b does not take the message');
    };
    await expect(handOver(nodes)).rejects.toBeInstanceOf(PeerMessageTooLongError);
    expect(sent).toBe(1);
    expect(nodes.serving(P)).toEqual(['a']);
  });

  test('stays where it is, served, if the target does not know its data format', async () => {
    const nodes = await open();
    const { a, b } = nodes;
    await nodes.run(a.h.enqueue(QUEUE, ['1']));
    const handlers = { ...b.handOffs?.handlers } as PeerHandlers;
    const newer = (offer: OfferPartitionRequest) => handlers.offerPartition({ ...offer, dataFormat: DATA_FORMAT + 1 });
    b.run = { serve: servePeer(() => ({ ...handlers, offerPartition: newer }), keptLog()) };
    await expect(handOver(nodes)).rejects.toMatchObject({
      reason: 'INCOMPATIBLE_RELEASE',
      message: expect.stringContaining(`data formats up to ${DATA_FORMAT}: upgrade it first`),
    });
    expect(nodes.serving(P)).toEqual(['a']);
    expect(pidsOf(await nodes.run(a.h.lease(QUEUE)))).toEqual(['1']);
  });

  test('arrives even at a low rate limit: the target waits, and new log entries count towards the limit', async () => {
    const nodes = await open({ bytesPerSecond: 2_000 });
    const { a, b } = nodes;
    const big = (pid: string) => a.h.update({ enqueue: [{ queue: QUEUE, pid, data: 'x'.repeat(100_000) }] });
    for (const pid of ['1', '2', '3', '4', '5', '6']) await nodes.run(big(pid));
    const from = nodes.time.now();
    let parts = 0;
    nodes.faults.request = (_, method) => {
      if (method === 'sendRows' && ++parts === 2) big('7');
    };
    await handOver(nodes);
    // 700,000 bytes and a little more: nothing is sent twice, and the throttle does not wait during the freeze.
    const tookMs = nodes.time.now() - from;
    expect(tookMs).toBeGreaterThan(350_000);
    expect(tookMs).toBeLessThan(360_000);
    expect(a.freezes).toHaveLength(1);
    expect(a.freezes[0]).toBeLessThan(100);
    expect(pidsOf(await nodes.run(b.h.lease(QUEUE, { max: 9 })))).toEqual(['1', '2', '3', '4', '5', '6', '7']);
  });

  test('arrives even if its log grows faster than the rate limit', async () => {
    const nodes = await open({ bytesPerSecond: 20_000 });
    const { a, b } = nodes;
    const add = (pid: string) => a.h.update({ enqueue: [{ queue: QUEUE, pid, data: 'x'.repeat(10_000) }] });
    for (let i = 0; i < 60; i++) await nodes.run(add(`${i}`));
    const adding = (async (): Promise<void> => {
      // 50,000 bytes per second.
      for (let i = 0; nodes.serving(P).includes('a'); i++) {
        await add(`x${i}`).catch((error: unknown) => expect(error).toMatchObject({ reason: 'NOT_HOLDER' }));
        await new Promise<void>((resolve) => a.h.clock.at((a.h.clock.now() + 200) as Instant, resolve));
      }
    })();
    await handOver(nodes);
    await nodes.run(adding);
    expect(nodes.serving(P)).toEqual(['b']);
    expect((await nodes.run(b.h.counts(QUEUE))).available).toBeGreaterThan(60);
  });

  test('and handed back is unchanged', async () => {
    const nodes = await open();
    await nodes.run(nodes.a.h.enqueue(QUEUE, ['1', '2']));
    await handOver(nodes);
    await nodes.run(nodes.b.h.enqueue(QUEUE, ['3']));
    await nodes.run(Promise.resolve(nodes.b.handOffs?.send(P, { nodeId: 'a', address: 'a' })));
    expect(nodes.a.partitions.holding(P)).toEqual({ kind: 'serving', epoch: 3 });
    nodes.a.lose();
    await nodes.run(nodes.a.start());
    expect(pidsOf(await nodes.run(nodes.a.h.lease(QUEUE, { max: 5 })))).toEqual(['1', '2', '3']);
  });

  test('tells callers that wait for its tasks where it is now', async () => {
    const nodes = await open();
    const waiting = nodes.a.h.lease(QUEUE, { wait: 60_000 });
    waiting.catch(() => {});
    await handOver(nodes);
    await expect(nodes.run(waiting)).rejects.toMatchObject({ reason: 'NOT_HOLDER' });
  });
});

describe('a hand-off that fails', () => {
  test('before the switch leaves the partition at its holder', async () => {
    const nodes = await open();
    await nodes.run(nodes.a.h.enqueue(QUEUE, ['1']));
    nodes.faults.request = (_, method) => {
      if (method === 'takePartition') nodes.b.lose();
      if (method === 'sendRows') throw new Error('the link is down');
    };
    await expect(handOver(nodes)).rejects.toThrow('the link is down');
    expect(nodes.serving(P)).toEqual(['a']);
    expect(pidsOf(await nodes.run(nodes.a.h.lease(QUEUE)))).toEqual(['1']);
  });

  test('with its last answer is resolved by asking the target', async () => {
    const nodes = await open();
    await nodes.run(nodes.a.h.enqueue(QUEUE, ['1']));
    nodes.faults.answer = (_, method) => {
      if (method === 'takePartition') throw new Error('the answer is lost');
    };
    await expect(handOver(nodes)).rejects.toThrow('may have taken');
    await nodes.run(Promise.resolve(nodes.a.handOffs?.settled()));
    expect(nodes.serving(P)).toEqual(['b']);
  });

  test('with its last request is resolved by asking the target', async () => {
    const nodes = await open();
    await nodes.run(nodes.a.h.enqueue(QUEUE, ['1']));
    nodes.faults.request = (_, method) => {
      if (method === 'takePartition') throw new Error('the request is lost');
    };
    await expect(handOver(nodes)).rejects.toThrow('may have taken');
    await nodes.run(Promise.resolve(nodes.a.handOffs?.settled()));
    expect(nodes.serving(P)).toEqual(['a']);
  });

  const forbid = ({ partitions }: TwoNodes['a']): void => {
    const refused = Promise.reject(new Refusal('OLD_DATA', 'older copy'));
    refused.catch(() => {});
    partitions.guard(() => refused);
  };

  test('because the target may change nothing leaves the partition at its holder', async () => {
    const nodes = await open();
    await nodes.run(nodes.a.h.enqueue(QUEUE, ['1']));
    forbid(nodes.b);
    await expect(handOver(nodes)).rejects.toMatchObject({ reason: 'OLD_DATA' });
    expect(nodes.serving(P)).toEqual(['a']);
  });

  test('because the target may change nothing from now on leaves the partition at its holder', async () => {
    const nodes = await open();
    await nodes.run(nodes.a.h.enqueue(QUEUE, ['1']));
    nodes.faults.request = (_, method) => {
      if (method === 'takePartition') forbid(nodes.b);
    };
    await expect(handOver(nodes)).rejects.toThrow('may have taken');
    await nodes.run(Promise.resolve(nodes.a.handOffs?.settled()));
    expect(nodes.serving(P)).toEqual(['a']);
    expect(pidsOf(await nodes.run(nodes.a.h.lease(QUEUE)))).toEqual(['1']);
  });

  test('because the holder may change nothing from now on does not reach the target', async () => {
    const nodes = await open();
    await nodes.run(nodes.a.h.enqueue(QUEUE, ['1']));
    nodes.faults.request = (_, method) => {
      if (method === 'sendRows') forbid(nodes.a);
    };
    await expect(handOver(nodes)).rejects.toThrow('is not served here');
    expect(nodes.b.partitions.holds(P)).toBe(false);
  });

  test('is served here again when the target is removed', async () => {
    const nodes = await open();
    await nodes.run(nodes.a.h.enqueue(QUEUE, ['1']));
    nodes.faults.request = (_, method) => {
      if (method === 'takePartition' || method === 'resolveOffer') throw new Error('the request is lost');
    };
    await expect(handOver(nodes)).rejects.toThrow('may have taken');
    await expect(nodes.run(nodes.a.h.lease(QUEUE))).rejects.toMatchObject({ reason: 'PARTITION_MOVING' });
    await nodes.run(Promise.resolve(nodes.a.handOffs?.resolveRemoved('b')));
    expect(nodes.a.partitions.holding(P)).toEqual({ kind: 'serving', epoch: 3 });
    expect(pidsOf(await nodes.run(nodes.a.h.lease(QUEUE)))).toEqual(['1']);
  });

  test('because the disk is full at the switch is taken back when there is space, even if the target is gone', async () => {
    const nodes = await open({ syncMs: 3 });
    const { a, b } = nodes;
    await nodes.run(a.h.enqueue(QUEUE, ['1']));
    nodes.faults.answer = (_, method) => {
      if (method === 'sendAtoms') a.h.disk.space = 'none';
    };
    await expect(handOver(nodes)).rejects.toThrow('could not be taken back');
    await nodes.time.advance(20);
    await expect(nodes.run(a.h.lease(QUEUE))).rejects.toMatchObject({ reason: 'PARTITION_MOVING' });
    b.lose();
    a.h.disk.space = 'plenty';
    await nodes.run(Promise.resolve(a.handOffs?.settled()));
    expect(nodes.serving(P)).toEqual(['a']);
    await nodes.run(a.h.enqueue(QUEUE, ['2']));
    a.lose();
    await nodes.run(a.start());
    expect(pidsOf(await nodes.run(a.h.lease(QUEUE, { max: 9 })))).toEqual(['1', '2']);
  });

  test('because the target stops while callers wait ends after two seconds', async () => {
    const nodes = await open({ syncMs: 5 });
    const { a } = nodes;
    await nodes.run(a.h.enqueue(QUEUE, ['1']));
    let stands = false;
    nodes.faults.stands = (method) => {
      // More than the last call carries.
      if (method === 'sendAtoms' && nodes.serving(P).length > 0) {
        for (const pid of ['2', '3']) a.h.update({ enqueue: [{ queue: QUEUE, pid, data: 'x'.repeat(100_000) }] });
      }
      stands ||= method === 'sendAtoms' && nodes.serving(P).length === 0;
      return stands;
    };
    const sent = Promise.resolve(a.handOffs?.send(P, TO_B)).catch((error: unknown) => error);
    while (nodes.serving(P).length > 0) await nodes.time.advance(1);
    const from = nodes.time.now();
    await nodes.run(a.h.enqueue(QUEUE, ['4']));
    expect(nodes.time.now() - from).toBeLessThan(2_100);
    expect(await sent).toMatchObject({ message: expect.stringContaining('does not answer') });
    expect(stands).toBe(true);
    expect(nodes.serving(P)).toEqual(['a']);
  });

  test('is not caused by parts that arrive twice', async () => {
    const nodes = await open();
    await nodes.run(nodes.a.h.enqueue(QUEUE, ['1', '2', '3']));
    nodes.faults.copies = (method) => (method === 'sendRows' || method === 'sendAtoms' ? 2 : 1);
    await handOver(nodes);
    expect(pidsOf(await nodes.run(nodes.b.h.lease(QUEUE, { max: 9 })))).toEqual(['1', '2', '3']);
  });
});
