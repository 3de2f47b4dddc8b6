import { clientOver, connect, type LeasedTask, spread, type TaskMasterClient } from '@taskmaster/client';
import { only } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { clientSetUp, transportSetUp, VirtualTiming } from './support/client-set-up.ts';

interface Given {
  readonly client: TaskMasterClient;
  readonly task: LeasedTask<unknown>;
}

/** As JavaScript calls it: no compiler looks at the options. */
const js = (options: object): never => options as never;
/** A misspelt name of an option of every call. */
const timeot = js({ timeot: 1 });
const queueOf = ({ client }: Given) => client.queue('g#q');
const shardsOf = ({ client }: Given) => client.shardedQueue('g#s', { shards: 2 });
const first = (items: AsyncIterator<unknown>): Promise<unknown> => items.next();

/** What is called, and the option that was meant. */
const calls: readonly (readonly [name: string, call: (given: Given) => unknown, meant: string])[] = [
  ['connect', () => connect(js({ endpoint: 'a:1' })), 'endpoints'],
  ['connect tls', () => connect({ endpoints: 'a:1', tls: js({ cafile: 'x' }) }), 'caFile'],
  ['connect retry', () => connect({ endpoints: 'a:1', retry: js({ maxAttempt: 1 }) }), 'maxAttempts'],
  ['connect backoff', () => connect({ endpoints: 'a:1', retry: { backoff: js({ inital: 1 }) } }), 'initial'],
  ['clientOver', () => clientOver(transportSetUp(new VirtualTiming()).transport, timeot), 'timeout'],
  ['queue', ({ client }) => client.queue('q', js({ codek: 1 })), 'codec'],
  ['shardedQueue', ({ client }) => client.shardedQueue('q', js({ shards: 1, shema: 1 })), 'schema'],
  ['topic', ({ client }) => client.topic('q', js({ scheme: 1 })), 'schema'],
  ['matchingQueues', ({ client }) => client.matchingQueues({ group: 'g' }, js({ wieght: 1 })), 'weight'],
  ['matchingQueues filter', ({ client }) => client.matchingQueues(js({ group: 'g', regexp: '.' })), 'regex'],
  ['matchingQueues lease', ({ client }) => client.matchingQueues({ group: 'g' }).lease(js({ maxx: 1 })), 'max'],
  ['client lease', ({ client }) => client.lease(js({ queues: ['q'], wiat: 1 })), 'wait'],
  ['worker', ({ client }) => client.worker('q', () => {}, js({ concurency: 1 })), 'concurrency'],
  ['worker batch', ({ client }) => client.worker('q', () => [], { batch: js({ max: 1, maxwait: 1 }) }), 'maxWait'],
  ['worker hook', ({ client }) => client.worker('q', () => {}, js({ onTaskComplete: 1 })), 'onTaskCompleted'],
  ['worker run', ({ client }) => client.worker('q', () => {}).run(js({ signall: 1 })), 'signal'],
  ['worker stop', ({ client }) => client.worker('q', () => {}).stop(timeot), 'timeout'],
  ['onEveryWorker', ({ client }) => client.topic('t').onEveryWorker(() => {}, js({ Ttl: 1 })), 'ttl'],
  ['stats', ({ client }) => client.stats(js({ queue: ['q'] })), 'queues'],
  ['stats filter', ({ client }) => client.stats({ filter: js({ minAvailible: 1 }) }), 'minAvailable'],
  ['listQueues', ({ client }) => first(client.listQueues(js({ pagesize: 1 }))), 'pageSize'],
  ['whoAmI', ({ client }) => client.whoAmI(js({ question: [] })), 'questions'],
  ['whoAmI question', ({ client }) => client.whoAmI({ questions: [js({ rights: 'read' })] }), 'right'],
  ['subscriptions', ({ client }) => client.subscriptions('g', timeot), 'timeout'],
  ['close', ({ client }) => client.close(timeot), 'timeout'],
  ['enqueue', (given) => queueOf(given).enqueue(1, js({ dealy: 1 })), 'delay'],
  ['enqueue retry', (given) => queueOf(given).enqueue(1, { retry: js({ maxAttmepts: 1 }) }), 'maxAttempts'],
  ['enqueue backoff', (given) => queueOf(given).enqueue(1, { retry: { backoff: js({ maxx: 1 }) } }), 'max'],
  ['enqueueMany', (given) => queueOf(given).enqueueMany([{ data: 1 }], timeot), 'timeout'],
  ['enqueueMany item', (given) => queueOf(given).enqueueMany([js({ data: 1, runat: 1 })]), 'runAt'],
  ['task', (given) => queueOf(given).task(1, js({ haeders: {} })), 'headers'],
  ['lease', (given) => queueOf(given).lease(js({ leaseduration: 1 })), 'leaseDuration'],
  ['waitFor', (given) => queueOf(given).waitFor('a', timeot), 'timeout'],
  ['waitForEnd', (given) => queueOf(given).waitForEnd('a', timeot), 'timeout'],
  ['queue stats', (given) => queueOf(given).stats(timeot), 'timeout'],
  ['peek', (given) => queueOf(given).peek(js({ kinds: 'head' })), 'kind'],
  ['get', (given) => queueOf(given).get(['a'], js({ dat: false })), 'data'],
  ['cancel', (given) => queueOf(given).cancel('a', js({ raeson: 'x' })), 'reason'],
  ['reschedule', (given) => queueOf(given).reschedule('a', 1, js({ requestID: 'x' })), 'requestId'],
  ['enqueue wait', (given) => queueOf(given).enqueue(1, { waitsFor: js({ signals: 1, timeot: 1 }) }), 'timeout'],
  [
    'enqueue parent',
    (given) => queueOf(given).enqueue(1, { parent: js({ queue: 'g#q', task: 'a', onFailur: 'fail' }) }),
    'onFailure',
  ],
  ['signal', (given) => queueOf(given).signal('a', js({ requestID: 'x' })), 'requestId'],
  ['signals', (given) => queueOf(given).signals('a', js({ codek: 1 })), 'codec'],
  ['flowOf', (given) => queueOf(given).flowOf('a', timeot), 'timeout'],
  ['lease starts', (given) => queueOf(given).lease({ starts: js({ nwo: 1 }) }), 'now'],
  ['pause', (given) => queueOf(given).pause(js({ raeson: 'x' })), 'reason'],
  ['resume', (given) => queueOf(given).resume(timeot), 'timeout'],
  ['pauses', ({ client }) => client.pauses('g', timeot), 'timeout'],
  ['limit', (given) => queueOf(given).limit(js({ maxleased: 1 })), 'maxLeased'],
  ['limit rate', (given) => queueOf(given).limit({ rate: js({ tasks: 1, per: 1, brust: 1 }) }), 'burst'],
  ['unlimit', (given) => queueOf(given).unlimit(js({ kyes: '*' })), 'keys'],
  ['limits', ({ client }) => client.limits('g', timeot), 'timeout'],
  ['flow add', ({ client }) => client.flow().add('a', 'g#q', 1, js({ afetr: 'b' })), 'after'],
  ['flow step', ({ client }) => client.flow().step('a', 'g#q', [], js({ afetr: 'b' })), 'after'],
  ['flow commit', ({ client }) => client.flow().add('a', 'g#q', 1).commit(timeot), 'timeout'],
  ['events', ({ client }) => client.events('g#*', js({ kindes: [] })), 'kinds'],
  ['eventPosition', ({ client }) => client.eventPosition('g#*', timeot), 'timeout'],
  ['bulk', ({ client }) => client.bulk(js({ action: 'delete', queues: 'g#q', eror: 'x' })), 'error'],
  ['bulkRuns', ({ client }) => client.bulkRuns('g', timeot), 'timeout'],
  ['delete', (given) => queueOf(given).delete(timeot), 'timeout'],
  ['resetLeases', (given) => queueOf(given).resetLeases(timeot), 'timeout'],
  ['sharded enqueue', (given) => shardsOf(given).enqueue(1, js({ dealy: 1 })), 'delay'],
  ['sharded lease', (given) => shardsOf(given).lease(js({ wiat: 1 })), 'wait'],
  ['sharded stats', (given) => shardsOf(given).stats(timeot), 'timeout'],
  ['sharded delete', (given) => shardsOf(given).delete(timeot), 'timeout'],
  ['sharded cancel', (given) => shardsOf(given).cancel('a', timeot), 'timeout'],
  ['sharded settings', (given) => shardsOf(given).putSettings(js({ timelimit: 1 })), 'timeLimit'],
  ['publish', ({ client }) => client.topic('t').publish(1, js({ dealy: 1 })), 'delay'],
  ['topic task', ({ client }) => client.topic('t').task(1, js({ dealy: 1 })), 'delay'],
  ['subscribe', ({ client }) => client.topic('t').subscribe('q', js({ filters: {} })), 'filter'],
  ['unsubscribe', ({ client }) => client.topic('t').unsubscribe('q', timeot), 'timeout'],
  ['schedules put', ({ client }) => client.schedules.put('s', js({ queue: 'q', data: 1, corn: '* * * * *' })), 'cron'],
  [
    'schedules put call',
    ({ client }) => client.schedules.put('s', { queue: 'q', data: 1, every: 1 }, timeot),
    'timeout',
  ],
  ['schedules list', ({ client }) => first(client.schedules.list(js({ nextRun: 1 }))), 'nextRuns'],
  ['schedules get', ({ client }) => client.schedules.get('s', timeot), 'timeout'],
  ['schedules delete', ({ client }) => client.schedules.delete('s', timeot), 'timeout'],
  ['schedules pause', ({ client }) => client.schedules.pause('s', timeot), 'timeout'],
  ['schedules trigger', ({ client }) => client.schedules.trigger('s', timeot), 'timeout'],
  ['dead letters list', ({ client }) => first(client.deadLetters('q').list(js({ limits: 1 }))), 'limit'],
  ['dead letters retry', ({ client }) => client.deadLetters('q').retry(js({ wher: 1 })), 'where'],
  ['settings put', ({ client }) => client.queueSettings.put('q', js({ keepout: 1 })), 'keepOut'],
  ['settings put retry', ({ client }) => client.queueSettings.put('q', { retry: js({ backof: 1 }) }), 'backoff'],
  ['settings put turns', ({ client }) => client.queueSettings.put('q', { fairTurns: js({ wieghts: {} }) }), 'weights'],
  ['settings list', ({ client }) => client.queueSettings.list('g', timeot), 'timeout'],
  ['members', ({ client }) => client.cluster.members(timeot), 'timeout'],
  ['partitions', ({ client }) => client.cluster.partitions(timeot), 'timeout'],
  ['drain', ({ client }) => client.cluster.drain('a', timeot), 'timeout'],
  ['remove', ({ client }) => client.cluster.remove('a', js({ acceptloss: true })), 'acceptLoss'],
  ['reportFailedBackup', ({ client }) => client.cluster.reportFailedBackup('', timeot), 'timeout'],
  ['backup', ({ client }) => client.cluster.backupPartition(1, js({ unchangedsince: 1 })), 'unchangedSince'],
  ['spread', ({ client }) => spread([client.queue('q')], js({ patince: 1 })), 'patience'],
  ['spread enqueue', ({ client }) => spread([client.queue('q')]).enqueue(1, js({ dealy: 1 })), 'delay'],
  ['spread worker', ({ client }) => spread([client.queue('q')]).worker(() => {}, js({ prefech: 1 })), 'prefetch'],
  ['update enqueue', ({ client }) => client.update().enqueue('q', 1, js({ dealy: 1 })), 'delay'],
  ['update complete', ({ client, task }) => client.update().complete(task, js({ resutl: 1 })), 'result'],
  ['update renew', ({ client, task }) => client.update().renew(task, 1_000, js({ progres: 'x' })), 'progress'],
  ['update release', ({ client, task }) => client.update().release(task, js({ refundAttemp: true })), 'refundAttempt'],
  ['update commit', ({ client, task }) => client.update().complete(task).commit(timeot), 'timeout'],
  ['complete', ({ task }) => task.complete(js({ enqeue: [] })), 'enqueue'],
  ['renew', ({ task }) => task.renew(1_000, timeot), 'timeout'],
  ['checkpoint', ({ task }) => task.checkpoint(new Uint8Array(1), timeot), 'timeout'],
  ['reportProgress', ({ task }) => task.reportProgress('x', timeot), 'timeout'],
  ['release', ({ task }) => task.release(js({ eror: 'x' })), 'error'],
  ['snooze', ({ task }) => task.snooze(1, timeot), 'timeout'],
  ['deadLetter', ({ task }) => task.deadLetter('x', timeot), 'timeout'],
  ['discard', ({ task }) => task.discard(timeot), 'timeout'],
];

async function leasedSetUp() {
  const { client, engine } = clientSetUp();
  const queue = client.queue('g#leased');
  await queue.enqueue('a', { pid: 'a' });
  return { client, engine, task: only(await queue.lease()) };
}

/** Values of a wrong type, and what is said of them. */
const wrong: readonly (readonly [name: string, call: (given: Given) => unknown, said: string])[] = [
  ['a hook', ({ client }) => client.worker('q', () => {}, js({ onIdle: 'log' })), 'onIdle: must be a function'],
  ['a backoff', ({ client }) => client.worker('q', () => {}, js({ backoff: 5 })), 'backoff: must be a function'],
  ['a concurrency', ({ client }) => client.worker('q', () => {}, js({ concurrency: '5' })), "concurrency: '5' is not"],
  ['headers', (given) => queueOf(given).enqueue(1, js({ headers: 'x' })), 'headers: must be an object with texts'],
  ['the names of get', (given) => queueOf(given).get('a' as never), 'get: must be a list of tasks'],
  ['the items of enqueueMany', (given) => queueOf(given).enqueueMany('ab' as never), 'must be a list of { data, … }'],
];

test.each(wrong)('%s of a wrong type is refused before anything is sent', async (_name, call, said) => {
  const { client, engine, task } = await leasedSetUp();
  const sent = engine.updates.length;
  const calling = (async () => call({ client, task }))();
  await expect(calling).rejects.toThrow(TypeError);
  await expect(calling).rejects.toThrow(said);
  expect(engine.updates).toHaveLength(sent);
});

describe('a misspelt option', () => {
  test.each(calls)('of %s is refused, and nothing is sent', async (_name, call, meant) => {
    const { client, engine, task } = await leasedSetUp();
    const sent = engine.updates.length;
    const calling = (async () => call({ client, task }))();
    await expect(calling).rejects.toThrow(TypeError);
    await expect(calling).rejects.toThrow(`did you mean ${meant}?`);
    expect(engine.updates).toHaveLength(sent);
    // The task can still be completed.
    await task.complete();
    await client.close();
  });

  test('that is like no other is refused with all that there are', async () => {
    const { client } = clientSetUp();
    const refused = client.queue('q').get(['a'], js({ color: 1 }));
    await expect(refused).rejects.toThrow('get: there is no color, only signal, timeout, maxAttempts, and data');
  });

  test.each([null, 1, 'text', true])('is also what is no object at all: %j', async (options) => {
    const { client } = clientSetUp();
    await expect(client.queue('q').peek(options as never)).rejects.toThrow(/^peek: must be an object with /);
  });
});
