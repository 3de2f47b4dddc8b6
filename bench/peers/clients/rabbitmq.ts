import { setTimeout as delay } from 'node:timers/promises';
import { payload } from '../../load/payload.ts';
import { libraryVersion, loadLibrary } from '../libraries.ts';
import { BATCH, type Consumer, hostAndPort, type PeerClient, type Work } from './client.ts';

const QUEUE = 'bench';
const WAITING = 'waiting';
/** Number of channels. A channel answers in order, so several channels wait less for each other. */
const PUBLISHING_CHANNELS = 10;
const GETTING_CHANNELS = 500;
const PUSHING_CHANNELS = 10;
const PREFETCH = 500;
const COUNT_EVERY_MS = 100;

/** The parts of the library that are used here. */
interface Amqp {
  readonly connect: (url: string, options: object) => Promise<Connection>;
}

interface Connection {
  readonly connection: { readonly serverProperties: { readonly version?: string } };
  createChannel(): Promise<Channel>;
  createConfirmChannel(): Promise<Channel>;
  close(): Promise<void>;
}

interface Channel {
  assertQueue(name: string, options: object): Promise<unknown>;
  checkQueue(name: string): Promise<{ readonly messageCount: number }>;
  publish(exchange: string, key: string, data: Buffer, options: object, done: (error: unknown) => void): boolean;
  get(queue: string): Promise<object | false>;
  ack(message: object, allUpTo?: boolean): void;
  prefetch(count: number): Promise<unknown>;
  consume(queue: string, onMessage: (message: object | null) => void): Promise<unknown>;
  close(): Promise<void>;
}

/** RabbitMQ with a quorum queue, which syncs before it confirms, and publisher confirms. It never confirms an `ack`. */
export async function connectRabbitMq(endpoint: string): Promise<PeerClient> {
  const { connect } = await loadLibrary<Amqp>('amqplib');
  const { host, port } = hostAndPort(endpoint);
  const connection = await whenItIsUp(() => connect(`amqp://guest:guest@${host}:${port}`, { noDelay: true }));
  const admin = await connection.createChannel();
  for (const name of [QUEUE, WAITING]) {
    await admin.assertQueue(name, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
  }
  const publishing = await channels(PUBLISHING_CHANNELS, () => connection.createConfirmChannel());
  const getting = await channels(GETTING_CHANNELS, () => connection.createChannel());
  let turn = 0;
  const publish = (queue: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const options = { persistent: true };
      publishing[turn++ % publishing.length]?.publish('', queue, payload(), options, (error) => {
        if (error) reject(error);
        else resolve();
      });
    });
  const push = (how: string, open: number, prefetch: number, ackEvery: number): Work => ({
    kind: 'consume',
    confirmed: false,
    how,
    start: (completed) => consume(connection, open, prefetch, ackEvery, completed),
    left: () => steadyCount(admin),
  });
  return {
    version: `${connection.connection.serverProperties.version ?? '?'} with ${libraryVersion('amqplib')}`,
    enqueue: {
      kind: 'loop',
      confirmed: true,
      how: `publish to a quorum queue, each with its confirm, over ${PUBLISHING_CHANNELS} channels`,
      async operate() {
        await publish(QUEUE);
        return 1;
      },
    },
    enqueueMany: {
      kind: 'loop',
      confirmed: true,
      how: `${BATCH} publishes, then their confirms`,
      async operate() {
        await Promise.all(Array.from({ length: BATCH }, () => publish(QUEUE)));
        return BATCH;
      },
    },
    leaseComplete: {
      kind: 'loop',
      confirmed: false,
      how: 'get, ack',
      async operate() {
        const channel = getting.pop(); // one get at a time on each channel
        if (channel === undefined) throw new RangeError('there are not enough channels');
        const message = await channel.get(QUEUE);
        if (message !== false) channel.ack(message);
        getting.push(channel);
        return message === false ? 0 : 1;
      },
    },
    worker: push(`pushed, prefetch ${PREFETCH}, one ack each`, 1, PREFETCH, 1),
    leaseCompleteMany: push(
      `pushed to ${PUSHING_CHANNELS} consumers, prefetch ${2 * BATCH}, one ack for ${BATCH}`,
      PUSHING_CHANNELS,
      2 * BATCH,
      BATCH,
    ),
    waiting: 'pushed',
    enqueueToWaiting: () => publish(WAITING),
    async wait(received) {
      const channel = await connection.createChannel();
      await channel.prefetch(1);
      await channel.consume(WAITING, (message) => {
        if (message === null) return;
        received();
        channel.ack(message);
      });
      return { stop: () => channel.close() };
    },
    [Symbol.asyncDispose]: () => connection.close(),
  };
}

async function consume(
  connection: Connection,
  open: number,
  prefetch: number,
  ackEvery: number,
  completed: (tasks: number) => void,
): Promise<Consumer> {
  const consumers = await channels(open, () => connection.createChannel());
  for (const channel of consumers) {
    let unacked = 0;
    await channel.prefetch(prefetch);
    await channel.consume(QUEUE, (message) => {
      if (message === null || ++unacked < ackEvery) return;
      unacked = 0;
      channel.ack(message, ackEvery > 1);
      completed(ackEvery);
    });
  }
  return {
    async stop() {
      // The broker closes a channel after it has read every earlier ack.
      await Promise.all(consumers.map((channel) => channel.close()));
    },
  };
}

/** Number of messages in the queue, when it does not change any more: unacked messages return some time after the close. */
async function steadyCount(channel: Channel): Promise<number> {
  for (let last = -1; ; ) {
    const { messageCount } = await channel.checkQueue(QUEUE);
    if (messageCount === last) return messageCount;
    last = messageCount;
    await delay(COUNT_EVERY_MS);
  }
}

function channels(count: number, open: () => Promise<Channel>): Promise<Channel[]> {
  return Promise.all(Array.from({ length: count }, open));
}

/** Retries until the broker serves connections: it accepts them some time before. */
async function whenItIsUp<T>(connect: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await connect();
    } catch (error) {
      if (attempt === 60) throw error;
      await delay(500);
    }
  }
}
