import { setTimeout as delay } from 'node:timers/promises';
import { connect, LeaseLostError, pidText, type TaskMasterClient, TaskNotFoundError } from '@taskmaster/client';
import { SeededRandom } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const SEED = Number(process.env.TASKMASTER_SEED ?? 1);
const KILLS = Number(process.env.TASKMASTER_KILLS ?? 3);
/** Of each policy and each way to fail. */
const FLOWS = Number(process.env.TASKMASTER_FLOWS ?? 2);
const POLICIES = ['continue', 'fail', 'retry'] as const;
/** `late`: it does not start in time. */
const WAYS = ['dead-letter', 'cancel', 'expire', 'late'] as const;
type Way = (typeof WAYS)[number] | 'complete';
/** Of each flow. One of them fails. */
const CHILDREN = ['first', 'second', 'failed'];
/** Longest time until the leases of a killed node have ended and their tasks have come again, in ms. */
const PATIENCE_MS = 60_000;
const LASTS_MS = 2 * PATIENCE_MS + KILLS * 20_000;

const queueOf = (way: Way): string => `flows#${way}`;
const names = POLICIES.flatMap((policy) =>
  WAYS.flatMap((way) => Array.from({ length: FLOWS }, (_, at) => ({ policy, way, name: `${policy} ${way} ${at}` }))),
);
/** Those of flows whose failed child leaves no dead letter that could be put back. */
const fails = ({ policy, way }: (typeof names)[number]): boolean =>
  policy === 'fail' || (policy === 'retry' && way === 'cancel');

async function enqueueFlows(client: TaskMasterClient): Promise<void> {
  for (const { policy, way, name } of names) {
    const flow = client.flow();
    for (const child of CHILDREN) {
      const how = child === 'failed' ? way : 'complete';
      const limits = how === 'complete' ? {} : { retry: { maxAttempts: 1, deadLetterQueue: `${queueOf(how)}.dead` } };
      const start = how === 'late' ? { startWithin: '50ms' as const } : {};
      flow.add(child, queueOf(how), name, { pid: `${name} ${child}`, onFailure: policy, ...limits, ...start });
    }
    flow.add('sum', 'flows#sums', name, {
      pid: name,
      after: CHILDREN,
      collect: true,
      retry: { maxAttempts: Number.POSITIVE_INFINITY },
    });
    await flow.commit({ requestId: name.replaceAll(' ', '-') });
  }
}

/** Ends the tasks of a queue in one way, until the signal. A task may have been ended by a call whose reply is lost. */
async function endAll(client: TaskMasterClient, way: Way, signal: AbortSignal): Promise<void> {
  const queue = client.queue<string>(queueOf(way));
  while (!signal.aborted) {
    if (way === 'cancel') {
      for (const { pid } of await queue.peek({ data: false, limit: 2 })) await unlessGone(queue.cancel(pid));
      await delay(5);
      continue;
    }
    const leaseDuration = way === 'expire' ? '100ms' : '3s';
    for (const task of await queue.lease({ max: 2, leaseDuration, wait: '200ms' })) {
      if (way === 'complete') await unlessGone(task.complete());
      else if (way === 'dead-letter') await unlessGone(task.deadLetter(new Error('no')));
    }
  }
}

async function unlessGone(call: Promise<unknown>): Promise<void> {
  await call.catch((error: unknown) => {
    if (!(error instanceof TaskNotFoundError || error instanceof LeaseLostError)) throw error;
  });
}

test('each parent hears once of a child that fails around a kill -9 of the node, and its policy decides', {
  timeout: LASTS_MS,
}, async () => {
  await using dir = await temporaryDirectory();
  const random = new SeededRandom(SEED);
  let node = await startNode({ dir: dir.path });
  const { grpcPort } = node;
  await using _last = { [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() };
  await using client = await connect({ endpoints: node.endpoint, timeout: '30s' });
  const [end, ended] = [new AbortController(), new Map<string, number>()];
  const working = (['complete', 'dead-letter', 'cancel', 'expire'] as const).map((way) =>
    endAll(client, way, end.signal),
  );
  const failed = Promise.all(working);
  failed.catch(() => {});
  const enqueued = enqueueFlows(client);
  enqueued.catch(() => {});

  const wrong: string[] = [];
  const byName = new Map(names.map((flow) => [flow.name, flow]));
  await using summing = client.worker(
    client.queue<string>('flows#sums'),
    async (task) => {
      const flow = byName.get(task.data);
      const heard = (await task.signals()).map(({ child }) => `${child && pidText(child.pid)} ${child?.completed}`);
      // A dead letter that was put back has been completed.
      const expected = CHILDREN.map(
        (child) => `${task.data} ${child} ${child !== 'failed' || flow?.policy === 'retry'}`,
      );
      if (flow === undefined || fails(flow) || heard.toSorted().join() !== expected.toSorted().join()) {
        wrong.push(`${task.data} ran and has heard of ${heard.join()}`);
      }
      ended.set(task.data, 1);
    },
    { leaseDuration: '3s', concurrency: 4 },
  );
  summing.start();

  for (let kill = 1; kill <= KILLS; kill++) {
    await delay(50 + random.int(250));
    await node.kill();
    node = await startNode({ dir: dir.path, grpcPort });
  }
  await Promise.race([failed, enqueued]);
  const complete = client.queue(queueOf('complete'));
  await eventually(async () => expect(await complete.stats()).toMatchObject({ available: 0, leased: 0, delayed: 0 }), {
    withinMs: PATIENCE_MS,
  });
  const lettersOf = async (queue: string): Promise<string[]> =>
    (await client.queue(`${queue}.dead`).peek({ data: false, limit: 1000 })).map(({ pid }) => pidText(pid)).sort();
  const dead = names.filter(({ way }) => way !== 'cancel');
  for (const way of WAYS) {
    if (way === 'cancel') continue;
    const expected = dead.filter((flow) => flow.way === way).map(({ name }) => `${name} failed`);
    await eventually(async () => expect(await lettersOf(queueOf(way))).toEqual(expected.sort()), {
      withinMs: PATIENCE_MS,
    });
  }
  const failing = names.filter(fails).map(({ name }) => name);
  await eventually(async () => expect(await lettersOf('flows#sums')).toEqual(failing.toSorted()), {
    withinMs: PATIENCE_MS,
  });
  // Those that wait for their dead letters are the only ones that have not ended.
  const waiting = names.filter((flow) => flow.policy === 'retry' && !fails(flow)).map(({ name }) => name);
  const going = names.filter(({ policy }) => policy === 'continue').map(({ name }) => name);
  await eventually(() => expect([...ended.keys()].toSorted()).toEqual(going.toSorted()), { withinMs: PATIENCE_MS });
  expect((await client.queue('flows#sums').stats()).waiting).toBe(waiting.length);
  await node.kill();
  node = await startNode({ dir: dir.path, grpcPort });
  end.abort();
  await failed;
  for (const way of ['dead-letter', 'expire', 'late'] as const) {
    await client.deadLetters(`${queueOf(way)}.dead`).retry();
    const queue = client.queue<string>(queueOf(way));
    for (let tasks = await queue.lease({ max: 100 }); tasks.length > 0; tasks = await queue.lease({ max: 100 }))
      for (const task of tasks) await task.complete();
  }
  const all = [...going, ...waiting].toSorted();
  await eventually(() => expect([...ended.keys()].toSorted()).toEqual(all), { withinMs: PATIENCE_MS });
  expect(await lettersOf('flows#sums')).toEqual(failing.toSorted());
  expect(wrong).toEqual([]);
});
