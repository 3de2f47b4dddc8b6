import { payload } from '../../load/payload.ts';
import { BeanstalkdConnection, type Reply } from './beanstalkd-connection.ts';
import { BATCH, type PeerClient } from './client.ts';

const CONNECTIONS = 50;
const WAITING = 'waiting';
const PRIORITY = 1024;
const LEASE_S = 120;
const CALL = { kind: 'loop', confirmed: true } as const;
const RESERVE = Buffer.from('reserve-with-timeout 0\r\n');

/** beanstalkd through our own pipelining client, over several connections in turn. */
export async function connectBeanstalkd(endpoint: string): Promise<PeerClient> {
  const connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => BeanstalkdConnection.open(endpoint)));
  const producer = await BeanstalkdConnection.open(endpoint);
  await producer.ask([Buffer.from(`use ${WAITING}\r\n`)]);
  let turn = 0;
  const next = (): BeanstalkdConnection => {
    const connection = connections[turn++ % CONNECTIONS];
    if (connection === undefined) throw new RangeError('there are no connections');
    return connection;
  };
  const enqueue = async (tasks: number): Promise<number> => {
    const replies = await next().ask(Array.from({ length: tasks }, put));
    for (const reply of replies) expectWord(reply, 'INSERTED');
    return replies.length;
  };
  const leaseAndComplete = async (most: number): Promise<number> => {
    const connection = next(); // the connection that reserves a job must delete it
    const replies = await connection.ask(Array.from({ length: most }, () => RESERVE));
    const reserved = replies.filter(({ words }) => words[0] === 'RESERVED');
    if (reserved.length === 0) return 0;
    for (const reply of await connection.ask(reserved.map(deletion))) expectWord(reply, 'DELETED');
    return reserved.length;
  };
  return {
    version: '',
    enqueue: { ...CALL, how: `put, over ${CONNECTIONS} connections`, operate: () => enqueue(1) },
    enqueueMany: { ...CALL, how: `${BATCH} puts in one write`, operate: () => enqueue(BATCH) },
    leaseComplete: {
      ...CALL,
      how: `reserve, delete, over ${CONNECTIONS} connections`,
      operate: () => leaseAndComplete(1),
    },
    leaseCompleteMany: {
      ...CALL,
      how: `${BATCH} reserves in one write, then ${BATCH} deletes`,
      operate: () => leaseAndComplete(BATCH),
    },
    waiting: 'a reserve that blocks',
    enqueueToWaiting: async () => {
      for (const reply of await producer.ask([put()])) expectWord(reply, 'INSERTED');
    },
    async wait(received) {
      const consumer = await BeanstalkdConnection.open(endpoint);
      await consumer.ask([Buffer.from(`watch ${WAITING}\r\n`), Buffer.from('ignore default\r\n')]);
      let isOver = false;
      const reserving = (async () => {
        while (!isOver) {
          const [reply] = await consumer.ask([Buffer.from('reserve-with-timeout 1\r\n')]);
          if (reply?.words[0] !== 'RESERVED') continue;
          received();
          await consumer.ask([deletion(reply)]);
        }
      })();
      return {
        async stop() {
          isOver = true;
          await reserving;
          consumer.close();
        },
      };
    },
    async [Symbol.asyncDispose]() {
      for (const connection of [...connections, producer]) connection.close();
    },
  };
}

function put(): Buffer {
  const data = payload();
  return Buffer.concat([Buffer.from(`put ${PRIORITY} 0 ${LEASE_S} ${data.length}\r\n`), data, Buffer.from('\r\n')]);
}

function deletion({ words }: Reply): Buffer {
  return Buffer.from(`delete ${words[1]}\r\n`);
}

function expectWord({ words }: Reply, word: string): void {
  if (words[0] !== word) throw new Error(`beanstalkd answered ${words.join(' ')} instead of ${word}`);
}
