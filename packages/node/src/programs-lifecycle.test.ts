import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServiceError } from '@grpc/grpc-js';
import { keptLog } from '@taskmaster/engine/testing';
import { startProxy } from '@taskmaster/proxy';
import {
  acceptsAt,
  aLease,
  type CallInFlight,
  errorInfoOf,
  freePort,
  grpcClient,
  type LifecycleWorld,
  lifecycleContract,
} from '@taskmaster/server/testing';
import { expect } from 'vitest';
import { type RunningNode, startNode } from './node.ts';

/** Starts of one program, one after the other. */
class Program implements AsyncDisposable {
  readonly #run: (signal: AbortSignal) => Promise<{ stop(): Promise<void> }>;
  #starting = new AbortController();
  #started: Promise<{ stop(): Promise<void> }> | undefined;

  constructor(run: (signal: AbortSignal) => Promise<{ stop(): Promise<void> }>) {
    this.#run = run;
  }

  async start(): Promise<void> {
    this.#starting = new AbortController();
    this.#started = this.#run(this.#starting.signal);
    await this.#started;
  }

  /** As the command line does when a signal comes. */
  async stop(): Promise<void> {
    this.#starting.abort();
    const running = await this.#started?.catch(() => undefined);
    await running?.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** A lease that waits at the node. A stop answers it, so it needs no leave to finish. */
async function waitingLease(port: number, node: { readonly httpAddress: string }): Promise<CallInFlight> {
  const client = grpcClient(port);
  const answered = client.leaseTasks(aLease({ waitMs: 60_000 })).catch((error: ServiceError) => {
    // A refusal is an answer, a broken connection is none.
    if (!errorInfoOf(error).reason) throw error;
  });
  answered.catch(() => {}).finally(() => client[Symbol.dispose]());
  const metrics = async (): Promise<string> => (await fetch(`http://${node.httpAddress}/metrics`)).text();
  await expect.poll(metrics).toMatch(/^taskmaster_waiting_leases 1$/m);
  return { answered, finish: () => {} };
}

/** A directory that is removed at the end, and settings of a node in it. */
function aDirectory(opened: AsyncDisposableStack) {
  const dataDir = mkdtempSync(join(tmpdir(), 'taskmaster-lifecycle-'));
  opened.defer(() => rmSync(dataDir, { recursive: true, force: true }));
  return { dataDir, store: { reserveBytes: 1024 * 1024 } };
}

lifecycleContract('a node', async (): Promise<LifecycleWorld> => {
  const opened = new AsyncDisposableStack();
  const [grpcPort, httpPort] = [await freePort(), await freePort()];
  const settings = { ...aDirectory(opened), grpcPort, httpPort };
  const program = opened.use(new Program((signal) => startNode(settings, { log: keptLog(), signal })));
  return {
    start: () => program.start(),
    stop: () => program.stop(),
    accepts: () => acceptsAt(grpcPort),
    call: () => waitingLease(grpcPort, { httpAddress: `127.0.0.1:${httpPort}` }),
    settle: (promise) => promise,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
});

lifecycleContract('a proxy', async (): Promise<LifecycleWorld> => {
  const opened = new AsyncDisposableStack();
  const node: RunningNode = opened.use(
    await startNode(
      { ...aDirectory(opened), grpcPort: 0, httpPort: 0, gossipPort: 0, bootstrap: true, withRouter: false },
      { log: keptLog() },
    ),
  );
  await node.member?.confirmed;
  const [grpcPort, httpPort] = [await freePort(), await freePort()];
  const settings = { join: [node.grpcAddress], grpcPort, httpPort, gossipPort: 0 };
  const program = opened.use(
    new Program(async () => {
      const proxy = await startProxy(settings, { log: keptLog() });
      await proxy.ready;
      return proxy;
    }),
  );
  return {
    start: () => program.start(),
    stop: () => program.stop(),
    accepts: () => acceptsAt(grpcPort),
    call: () => waitingLease(grpcPort, node),
    settle: (promise) => promise,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
});
