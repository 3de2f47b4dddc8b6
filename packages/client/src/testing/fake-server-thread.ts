import { workerData } from 'node:worker_threads';
import { FakeServer } from './fake-server.ts';

/** Data that `startServerThread` shares with its thread. */
export interface ServerThreadData {
  /** Port of the server, then the number of renewals. */
  readonly figures: Int32Array;
}

const { figures } = workerData as ServerThreadData;
const server = await FakeServer.start();
const update = server.engine.update.bind(server.engine);
server.engine.update = (request) => {
  const reply = update(request);
  Atomics.add(figures, 1, request.renew.length);
  return reply;
};
Atomics.store(figures, 0, server.port);
