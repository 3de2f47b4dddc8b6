import { GrpcTransport, type TransportWorld, transportContract } from '@taskmaster/client/testing';
import { type Backups, type Engine, openEngine } from '@taskmaster/engine';
import { SystemClock, systemRandom } from '@taskmaster/engine/ports';
import { keptLog, SeededRandom, SimDisk } from '@taskmaster/engine/testing';
import { createBackupService, encodedBackup } from '@taskmaster/server/grpc';
import { InProcessTransport } from './in-process-transport.ts';
import { createHandlers } from './service/handlers.ts';
import { startNodeServer } from './testing/start-node-server.ts';
import { watched } from './testing/watched-engine.ts';

// test/client runs the same suite on the transport with which tests lose requests and replies.

interface RealEngine extends AsyncDisposable {
  readonly engine: Engine;
  readonly backups: Backups;
  /** From now on updates are never answered. */
  stall(): void;
}

/** A real engine on a simulated disk. It uses real time, like the timeouts of the transports. */
async function openRealEngine(): Promise<RealEngine> {
  await using opened = new AsyncDisposableStack();
  const log = keptLog();
  const store = new SimDisk({ random: new SeededRandom(1) }).open();
  opened.defer(() => store.close());
  const engine = await openEngine({ store, clock: new SystemClock(), random: systemRandom, log });
  opened.defer(() => engine.stop());
  let isStalled = false;
  const running = opened.move();
  return {
    backups: engine.backups,
    engine: watched(engine, {
      updates: {
        apply: (command) => (isStalled ? new Promise(() => {}) : engine.updates.apply(command)),
        applyBatch: (batch) => (isStalled ? new Promise(() => {}) : engine.updates.applyBatch(batch)),
      },
    }),
    stall: () => {
      isStalled = true;
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

const inProcess = async (): Promise<TransportWorld> => {
  const real = await openRealEngine();
  const log = keptLog();
  const close = async () => await real[Symbol.asyncDispose]();
  const transport = new InProcessTransport({
    handlers: createHandlers(real.engine, log),
    log,
    close,
    backup: (request, signal) => real.backups.backup(request, signal),
  });
  return {
    transport,
    stall: () => real.stall(),
    settle: (promise) => promise,
    [Symbol.asyncDispose]: () => transport.close(),
  };
};

const overGrpc = (useStream: boolean) => async (): Promise<TransportWorld> => {
  await using opened = new AsyncDisposableStack();
  const real = opened.use(await openRealEngine());
  const backup = encodedBackup((request, { signal }) => real.backups.backup(request, signal));
  const { port } = opened.use(await startNodeServer(real.engine, {}, undefined, [], [createBackupService(backup)]));
  const transport = opened.use(new GrpcTransport({ endpoints: `127.0.0.1:${port}`, useStream }));
  const running = opened.move();
  return {
    transport,
    stall: () => real.stall(),
    settle: (promise) => promise,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
};

transportContract('InProcessTransport on an engine', inProcess);
transportContract('GrpcTransport over a stream to a server on an engine', overGrpc(true));
transportContract('GrpcTransport with calls of their own to a server on an engine', overGrpc(false));
