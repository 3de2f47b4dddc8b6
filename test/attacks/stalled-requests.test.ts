import { connect as connectHttp2 } from 'node:http2';
import { bytesCodec, connect } from '@taskmaster/client';
import { TaskMasterServiceService } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { figuresOf, hasFigures } from '../support/processes/process-figures.ts';
import { startNode } from '../support/processes/start-node.ts';
import { startProxy } from '../support/processes/start-proxy.ts';

const MIB = 1024 * 1024;
const MEMORY = 512;
/** Twice the memory of the attacked. */
const CALLS = 250;
const REQUEST_BYTES = 4 * MIB;

/** A node or a proxy. */
interface Attacked {
  readonly pid: number;
  readonly endpoint: string;
  /** `host:port`. */
  readonly http: string;
}

/** Calls on one connection that each send all of a request but its last 100 bytes. */
function stallCalls(node: Attacked): Disposable {
  const session = connectHttp2(`http://${node.endpoint}`).on('error', () => {});
  const head = Buffer.alloc(5);
  head.writeUInt32BE(REQUEST_BYTES, 1);
  const body = Buffer.concat([head, Buffer.alloc(REQUEST_BYTES - 100)]);
  for (let call = 0; call < CALLS; call++) {
    const made = session.request({
      ':method': 'POST',
      ':path': TaskMasterServiceService.updateTasks.path,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    made.on('error', () => {}).resume();
    made.write(body);
  }
  return { [Symbol.dispose]: () => session.destroy() };
}

async function inFlightBytes(node: Attacked): Promise<number> {
  const metrics = await (await fetch(`http://${node.http}/metrics`)).text();
  // A node counts them among the bytes in flight.
  const [, bytes] = /^taskmaster_(?:in_flight|receiving)_bytes (\S+)/m.exec(metrics) ?? [];
  return Number(bytes);
}

/** Times of small updates one after the other, in ms, sorted. */
async function timesOf(node: Attacked, updates: number): Promise<number[]> {
  await using client = await connect(node.endpoint);
  const queue = client.queue('others', { codec: bytesCodec });
  const times: number[] = [];
  for (let update = 0; update < updates; update++) {
    const began = performance.now();
    await queue.enqueue(Buffer.alloc(100));
    times.push(performance.now() - began);
  }
  return times.toSorted((a, b) => a - b);
}

const p99 = (times: readonly number[]): string => (times[Math.floor(times.length * 0.99)] ?? 0).toFixed(0);

test.skipIf(!hasFigures).each(['node', 'proxy'])(
  'requests that stall at a %s use little memory, count in the metrics, and end with their connection',
  async (where) => {
    await using cluster = await startNode({
      asShipped: true,
      flags: [`--memory=${MEMORY}MiB`, '--bootstrap', '--gossip-port=0'],
    });
    await using proxy = await startProxy([cluster.endpoint], [`--memory=${MEMORY}MiB`], undefined, [], true);
    const node: Attacked =
      where === 'node' ? { ...cluster, http: `127.0.0.1:${cluster.httpPort}` } : { ...proxy, pid: proxy.process.pid };
    const quiet = await timesOf(node, 300);
    const before = figuresOf(node.pid).rssBytes;
    let most = 0;
    using watched = new DisposableStack();
    const look = (): void => {
      most = Math.max(most, figuresOf(node.pid).rssBytes);
    };
    watched.adopt(setInterval(look, 20), clearInterval);
    {
      using _calls = stallCalls(node);
      const times = await timesOf(node, 1_000);
      await expect.poll(() => inFlightBytes(node)).toBeGreaterThan(REQUEST_BYTES);
      console.log(
        `${where}: memory ${(before / MIB).toFixed(0)} → ${(most / MIB).toFixed(0)} MiB, p99 of others ${p99(quiet)} → ${p99(times)} ms, ` +
          `in flight ${((await inFlightBytes(node)) / MIB).toFixed(0)} MiB`,
      );
    }
    watched.dispose();
    expect(most).toBeLessThan(MEMORY * MIB);
    const left = performance.now();
    await expect.poll(() => inFlightBytes(node), { timeout: 5_000 }).toBe(0);
    console.log(`${(performance.now() - left).toFixed(0)} ms after the attacker has left, nothing is in flight`);
  },
);
