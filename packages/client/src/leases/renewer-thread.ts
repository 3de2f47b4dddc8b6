import { workerData } from 'node:worker_threads';
import { GrpcTransport } from '../transport/grpc-transport.ts';
import { systemTiming } from '../transport/timing.ts';
import { Renewer } from './renewer.ts';
import { receiveLease } from './sent-lease.ts';
import type { RenewerCommand, RenewerReport, RenewerThreadData } from './threaded-renewer.ts';

// The main file of the thread of `ThreadedRenewer`.
const { reachable, port } = workerData as RenewerThreadData;
const report = (message: RenewerReport): void => port.postMessage(message);

const renewer = new Renewer({
  transport: new GrpcTransport(reachable),
  timing: systemTiming,
  random: Math.random,
  onRenewed: (ids, sentAt) => report({ kind: 'renewed', ids, sentAt }),
  onCancelled: (id, reason) => report({ kind: 'cancelled', id, reason }),
  onRefused(id, { code, reason, message, metadata }) {
    // Errors lose their class between threads, so they are sent in the form of the protocol.
    report({ kind: 'refused', id, error: { code, reason, message, metadata, retryDelayMs: 0, items: [] } });
  },
});

port.on('message', (command: RenewerCommand) => {
  if (command.kind === 'keep') renewer.keep(command.leases.map(receiveLease));
  else for (const id of command.ids) renewer.forget(id);
});
