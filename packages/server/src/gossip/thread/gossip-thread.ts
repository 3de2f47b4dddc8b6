import { parentPort, workerData } from 'node:worker_threads';
import type { Log } from '@taskmaster/engine/ports';
import { GossipListenError } from '../datagrams/socket.ts';
import { SwimMember } from '../swim/swim-member.ts';
import { HeartbeatWatch } from './heartbeats.ts';
import {
  type FromGossip,
  type GossipThreadSetup,
  MAIN_HEARTBEAT,
  THREAD_HEARTBEAT,
  type ToGossip,
} from './thread-protocol.ts';

const FIGURES_EVERY_MS = 500;

const port = parentPort;
if (!port) throw new Error('gossip-thread is started as a worker thread');
const { member: options, heartbeats: shared, hangAfterMs } = workerData as GossipThreadSetup;
const heartbeats = new Int32Array(shared);
const send = (message: FromGossip): void => port.postMessage(message);

const logAt =
  (level: keyof Log) =>
  (details: object, message: string): void =>
    send({ kind: 'log', level, details, message });
const log: Log = { debug: logAt('debug'), info: logAt('info'), warn: logAt('warn'), error: logAt('error') };

try {
  const member = await SwimMember.open(options, { log, onPeers: (peers) => send({ kind: 'peers', peers }) });
  run(member);
  send({ kind: 'open', gossipAddress: member.gossipAddress });
} catch (error) {
  if (!(error instanceof GossipListenError)) throw error;
  send({ kind: 'cannotListen', host: error.host, port: error.port, code: error.code });
  port.close();
}

function run(member: SwimMember): void {
  let hangs = 0;
  let hung = false;
  const everyMs = Math.max(5, Math.min(250, hangAfterMs / 10));
  const main = new HeartbeatWatch(() => Atomics.load(heartbeats, MAIN_HEARTBEAT), everyMs, performance.now());
  const sendFigures = () => send({ kind: 'figures', figures: member.figures, hangs });
  const watch = setInterval(() => {
    Atomics.add(heartbeats, THREAD_HEARTBEAT, 1);
    const hangsNow = main.look(performance.now()) >= hangAfterMs;
    if (hangsNow === hung) return;
    hung = hangsNow;
    if (hung) hangs++;
    member.setSilent(hung);
    const message = hung ? 'the main loop hangs: gossip keeps silent until it is back' : 'the main loop is back';
    log.warn({ hangAfterMs }, message);
  }, everyMs);
  const report = setInterval(sendFigures, FIGURES_EVERY_MS);
  const end = (): void => {
    clearInterval(watch);
    clearInterval(report);
    member.close();
    sendFigures();
    send({ kind: 'closed' });
    port?.close();
  };
  port?.on('message', (message: ToGossip) => {
    if (message.kind === 'announce') member.announce(message.meta);
    else if (message.kind === 'seek') member.seek(message.addresses);
    else if (message.kind === 'leave') void member.leave().then(end);
    else end();
  });
}
