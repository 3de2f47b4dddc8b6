import { type CliEnded, runCli, startCli } from '@taskmaster/cli/testing';
import { makeError } from '@taskmaster/client/internal';
import { PartitionState, partitionOf } from '@taskmaster/proto';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { fakeMember, fakePartition } from '../client/support/fake-cluster.ts';
import { TestNode } from '../client/support/test-node.ts';

const PARTITIONS = 8;
const DEAD = '127.0.0.1:2';

let server: TestNode;
/** Groups of three partitions: the first one's and the second one's are on a dead node. */
let dead: string;
let alsoDead: string;
let alive: string;
/** No call waits this long. A call to this holder is refused at once. */
const NOT_WAITED_FOR_MS = 60_000;
let retryDelayMs: number;
beforeEach(async () => {
  server = await TestNode.start();
  retryDelayMs = NOT_WAITED_FOR_MS;
  [dead, alsoDead, alive] = threeQueues();
  const held = [dead, alsoDead].map(partition);
  server.cluster.members = [
    fakeMember({ name: 'a', rpcAddress: server.endpoint }),
    fakeMember({ name: 'b', rpcAddress: DEAD, alive: false }),
  ];
  server.cluster.partitions = Array.from({ length: PARTITIONS }, (_, id) =>
    held.includes(id)
      ? fakePartition({ id, holder: 'b', state: PartitionState.PARTITION_STATE_UNREACHABLE })
      : fakePartition({ id, holder: 'a' }),
  );
  server.refusalOf = (queue) => {
    if (queue === alive) return undefined;
    const metadata = { partition: String(partition(queue)), holder: DEAD };
    return makeError('the node that holds it cannot be reached', {
      reason: 'HOLDER_UNREACHABLE',
      metadata,
      retryDelayMs,
    });
  };
});
afterEach(() => server.kill());

function partition(queue: string): number {
  return partitionOf(queue.slice(0, queue.indexOf('#')), PARTITIONS);
}

function threeQueues(): [string, string, string] {
  const found = new Map<number, string>();
  for (let i = 0; found.size < 3; i++) {
    const queue = `g${i}#q`;
    if (!found.has(partition(queue))) found.set(partition(queue), queue);
  }
  const [first, second, third] = found.values();
  if (first === undefined || second === undefined || third === undefined) throw new Error('three were found');
  return [first, second, third];
}

function run(...args: string[]): Promise<CliEnded> {
  return runCli(server.endpoint, args);
}

describe('a node that does not answer', () => {
  test.each([
    ['enqueue', (queue: string) => ['enqueue', queue, 'x']],
    ['peek', (queue: string) => ['peek', queue]],
    ['get', (queue: string) => ['get', queue, 'a']],
    ['delete-queue', (queue: string) => ['delete-queue', queue, '--yes']],
  ])('is named, with the queue: %s', async (_name, args) => {
    const { code, stdout, stderr } = await run(...args(dead));
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' });
    expect(stderr).toBe(
      `taskmaster: HOLDER_UNREACHABLE: b, which holds ${dead}, does not answer; restart the node: its tasks wait for it\n`,
    );
  });

  test('is named in JSON, too', async () => {
    const { stderr } = await run('lease', dead, '--json');
    expect(JSON.parse(stderr).error).toMatchObject({
      reason: 'HOLDER_UNREACHABLE',
      message: expect.stringContaining(`b, which holds ${dead}, does not answer`),
    });
  });

  test('is not known to nodes without a cluster: the first message stays', async () => {
    server.cluster.members = [];
    const { code, stderr } = await run('peek', dead);
    expect(code).toBe(3);
    expect(stderr).toContain('HOLDER_UNREACHABLE: the node that holds it cannot be reached');
    expect(stderr).toContain('`taskmaster members` shows which members do not answer');
  });

  test('is named on a terminal while the call is repeated', async () => {
    retryDelayMs = 50;
    const running = startCli(server.endpoint, ['peek', dead, '--timeout', '30s'], { isTerminal: true });
    await vi.waitUntil(() => running.stderr.includes(`b, which holds ${dead}, does not answer; retrying for 30s\n`), {
      timeout: 10_000,
    });
    server.refusalOf = undefined;
    const { code, stderr } = await running.ended;
    expect(code).toBe(4);
    expect(stderr.split('retrying for')).toHaveLength(2);
  });
});

describe('a lease of several queues, of which some are on a node that does not answer', () => {
  test('succeeds with the tasks of the other holders, and names the queues that were left out', async () => {
    await run('enqueue', alive, 'x');
    const { refusalOf } = server;
    let leases = 0;
    // A node that is asked for several queues leases from the others, and refuses if they have no tasks.
    server.refusalOf = (queue) => (queue === alive || leases++ < 2 ? undefined : refusalOf?.(queue));
    const { code, stdout, stderr } = await run('lease', dead, alsoDead, alive, '--max', '3');
    expect(code, stderr).toBe(0);
    expect(stdout).toContain(alive);
    expect(stderr).toBe(
      `some queues could not be asked for tasks: b, which holds ${dead}, ${alsoDead}, does not answer\n`,
    );
  });

  test('fails when nothing was leased', async () => {
    const { code, stdout, stderr } = await run('lease', dead, alive);
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' });
    expect(stderr).toContain(`HOLDER_UNREACHABLE: b, which holds ${dead}, does not answer`);
  });
});

test('names no node if none answers', async () => {
  server.refusalOf = () => makeError('none of the nodes answers: a, b', { reason: 'HOLDER_UNREACHABLE' });
  const { stderr } = await run('peek', dead);
  expect(stderr).toContain('HOLDER_UNREACHABLE: none of the nodes answers: a, b');
  expect(stderr).not.toContain('taskmaster members');
});
