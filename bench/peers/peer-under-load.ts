import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Child } from '../child.ts';
import { LOAD_FLAGS } from '../load-flags.ts';
import type { Processes } from '../processes.ts';
import type { PeerReply, PeerRequest } from './load-process.ts';
import type { Peer } from './peers.ts';
import type { RunningServer } from './servers/server.ts';
import type { WorkloadRequest, WorkloadResult } from './workloads.ts';

const CONNECT_MS = 120_000;
/** Limit of the time for fill, warm-up and end of a run, in addition to its run time. */
const RUN_GRACE_MS = 15 * 60_000;
const CLOSE_MS = 20_000;

const here = fileURLToPath(import.meta.url);
const program = join(dirname(here), `load-process${extname(here)}`);

/** A server of a peer, with a process that generates load for it. */
export class PeerUnderLoad {
  readonly #server: RunningServer;
  readonly #process: ChildProcess;
  readonly #running: Child;
  /** Versions of the server and of the client library. */
  readonly versions: string;

  private constructor(server: RunningServer, load: ChildProcess, running: Child, version: string) {
    this.#server = server;
    this.#process = load;
    this.#running = running;
    this.versions = [server.version, version].filter((part) => part !== '').join(' ');
  }

  /** Starts a server and its load process. The client libraries must be installed. Call `stop` in any case. */
  static async start(processes: Processes, peer: Peer): Promise<PeerUnderLoad> {
    const server = await peer.server.start(await processes.directory(), processes);
    // In its own process group: Ctrl-C must not end it before its server.
    const load = fork(program, {
      detached: true,
      serialization: 'advanced',
      execArgv: [...process.execArgv, ...LOAD_FLAGS],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    const running = new Child(`load generator of ${peer.name}`, load);
    try {
      const request = { kind: 'connect', peer: peer.name, endpoint: server.endpoint } as const;
      const connected = await ask(load, running, request, CONNECT_MS);
      return new PeerUnderLoad(server, load, running, connected.kind === 'connected' ? connected.version : '');
    } catch (error) {
      await running.kill();
      await server.stop();
      throw error;
    }
  }

  get serverPids(): readonly number[] {
    return this.#server.pids;
  }

  /** Runs a workload. Resolves with undefined if the peer has no calls for it. */
  async run(request: WorkloadRequest): Promise<WorkloadResult | undefined> {
    const ran = await ask(this.#process, this.#running, { kind: 'run', request }, request.ms + RUN_GRACE_MS);
    return ran.kind === 'ran' ? ran.result : undefined;
  }

  async stop(): Promise<void> {
    try {
      if (this.#running.isRunning) await ask(this.#process, this.#running, { kind: 'close' }, CLOSE_MS);
    } catch {
      // If it cannot end in good order it is killed.
    }
    await this.#running.kill();
    await this.#server.stop();
  }
}

/** Sends a request and waits for its reply. Only one at a time. */
async function ask(load: ChildProcess, running: Child, request: PeerRequest, withinMs: number): Promise<PeerReply> {
  const replied = once(load, 'message') as Promise<[PeerReply]>;
  load.send(request);
  const [reply] = await running.within(withinMs, `finish (${request.kind})`, replied);
  if (reply.kind === 'failed') throw new Error(reply.error);
  return reply;
}
