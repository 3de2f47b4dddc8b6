import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { pidText, type TaskMasterError } from '@taskmaster/client';
import { type Engine, MemoryStore, openEngine } from '@taskmaster/engine';
import { Refusal } from '@taskmaster/engine/domain';
import { SystemClock, systemRandom } from '@taskmaster/engine/ports';
import { keptLog } from '@taskmaster/engine/testing';
import { createHandlers, createNodeService } from '@taskmaster/node/testing';
import {
  isReason,
  type LeaseTasksRequest,
  type MethodKey,
  methodKeys,
  methods,
  PeekKind,
  type UnreachableNode,
  type UpdateTasksRequest,
} from '@taskmaster/proto';
import { Access, AccessTable, type CallerAccess, unlimitedAccess } from '@taskmaster/server/access';
import type { Origin, RawService } from '@taskmaster/server/calls';
import { createBackupService, createClusterService, encodedBackup } from '@taskmaster/server/grpc';
import { startServer, type TestServer } from '@taskmaster/server/testing';
import { FakeCluster } from './fake-cluster.ts';

type Handlers = ReturnType<typeof createHandlers>;
type Handler = (request: object, caller: object) => Promise<object>;

/** Calls that may take long: updates, leases and waits. */
const HELD: ReadonlySet<string> = new Set(['updateTasks', 'leaseTasks', 'waitForTasks']);
/** Listings that say which nodes are missing. */
const GATHERED: ReadonlySet<string> = new Set(['listQueues', 'getQueueStats', 'listSchedules']);

/**
 * The real service of a node over gRPC, on an engine in memory. A test sees what arrives, refuses calls, and crashes it. Only its
 * cluster is a fake: a test says which members and holders it names.
 */
export class TestNode implements AsyncDisposable {
  readonly cluster = new FakeCluster();
  /** Number of calls in each message of a stream, in order. */
  readonly messages: number[] = [];
  /** Streams opened so far. */
  streams = 0;
  /** Unary calls and backups by name. */
  readonly unaryCalls: MethodKey[] = [];
  /** Updates and leases that reached the engine, also those that it refused. */
  readonly updates: UpdateTasksRequest[] = [];
  readonly leases: LeaseTasksRequest[] = [];
  /** Refuses every call with this error. Undefined: no call. */
  refusal: TaskMasterError | undefined;
  /** Refuses calls of a queue with the returned error. */
  refusalOf: ((queue: string) => TaskMasterError | undefined) | undefined;
  /** Number of unary calls and streams with the header of a chosen holder. */
  routed = 0;
  /** The tokens of calls and streams that have one, in order. */
  readonly tokens: string[] = [];
  /** Delays updates, leases and waits until it resolves. */
  hold: Promise<void> = Promise.resolve();
  /** Takes the place of the engine for leases. Undefined: the engine leases. */
  leaseInstead: (() => Promise<never>) | undefined;
  readonly #engine: Engine;
  readonly #handlers: Handlers;
  readonly #sockets = new Set<Socket>();
  #server: TestServer | undefined;
  #front: Server | undefined;
  #port = 0;

  private constructor(engine: Engine) {
    this.#engine = engine;
    this.#handlers = createHandlers(engine, keptLog());
  }

  /** `port`: default any free one. */
  static async start(port = 0): Promise<TestNode> {
    const deps = { store: new MemoryStore(), clock: new SystemClock(), random: systemRandom, log: keptLog() };
    const node = new TestNode(await openEngine(deps));
    await node.#listen(port);
    return node;
  }

  get endpoint(): string {
    return `127.0.0.1:${this.port}`;
  }

  get port(): number {
    return this.#port;
  }

  /** Details of the lines of its log that say that a call has failed. */
  get failedCalls(): readonly object[] {
    const lines = this.#server?.log.lines ?? [];
    return lines.filter(({ message }) => message.startsWith('a request failed')).map(({ details }) => details);
  }

  /** Number of lease requests that wait for tasks. */
  get waiting(): number {
    return this.#engine.figures().waiters;
  }

  /** PIDs of a queue as text: those that are available, then those that are leased. */
  async pids(queue: string): Promise<string[]> {
    const pids: string[] = [];
    for (const kind of [PeekKind.PEEK_KIND_HEAD, PeekKind.PEEK_KIND_LEASED]) {
      const request = { queue, kind, limit: 1_000, afterPid: Buffer.alloc(0), includeData: false };
      const { tasks } = await this.#handlers.peekTasks(request, caller);
      pids.push(...tasks.map(({ pid }) => pidText(pid)));
    }
    return pids;
  }

  /** Closes all connections at once, as a crash does. */
  kill(): void {
    this.#front?.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill();
    await this.#server?.[Symbol.asyncDispose]();
    await this.#engine.stop();
  }

  async #listen(port: number): Promise<void> {
    const { cluster, tokens } = this;
    const clusterHandlers = {
      listMembers: async () => cluster.listMembers(),
      listPartitions: async () => cluster.listPartitions(),
      drainMember: async ({ name }: { readonly name: string }) => cluster.drainMember(name),
      resumeMember: async ({ name }: { readonly name: string }) => cluster.resumeMember(name),
      removeMember: async (request: Parameters<FakeCluster['removeMember']>[0]) => cluster.removeMember(request),
    };
    const clusterService = createClusterService(() => this.#guarded(clusterHandlers));
    this.#server = await startServer(
      this.#watched(createNodeService(this.#guarded(this.#handlers))),
      { access: new HeardAccess(tokens) },
      [{ ...clusterService, unary: this.#watchedUnary(clusterService.unary) }],
      [
        createBackupService(
          this.#backup(encodedBackup((request) => this.#engine.backups.backup(request, neverAborted))),
        ),
      ],
    );
    await this.#listenBefore(this.#server.port, port);
  }

  /** Connections pass through a socket of the test, so that it can cut them. */
  async #listenBefore(target: number, port: number): Promise<void> {
    this.#front = createServer((from) => {
      const to = connect(target, '127.0.0.1');
      for (const [socket, other] of [
        [from, to],
        [to, from],
      ] as const) {
        this.#sockets.add(socket);
        socket.setNoDelay(true);
        socket.on('error', () => {});
        socket.on('close', () => {
          this.#sockets.delete(socket);
          other.destroy();
        });
        socket.pipe(other);
      }
    });
    this.#front.listen(port, '127.0.0.1');
    await once(this.#front, 'listening');
    this.#port = (this.#front.address() as AddressInfo).port;
  }

  #watched(service: RawService): RawService {
    return {
      unary: this.#watchedUnary(service.unary),
      openStream: (origin) => {
        this.streams++;
        this.#heed(origin);
        const session = service.openStream(origin);
        return {
          read: (message) => {
            const operations = session.read(message);
            this.messages.push(operations.length);
            return operations;
          },
          hold: (held) => session.hold(held),
          close: () => session.close(),
        };
      },
    };
  }

  #watchedUnary(unary: RawService['unary']): RawService['unary'] {
    return Object.fromEntries(
      Object.entries(unary).map(([name, handle]) => [
        name,
        (request: Buffer, caller: Parameters<typeof handle>[1]) => {
          this.unaryCalls.push(keyOf(name));
          this.#heed(caller);
          return handle(request, caller);
        },
      ]),
    );
  }

  #backup(handle: ReturnType<typeof encodedBackup>): ReturnType<typeof encodedBackup> {
    return (request, caller) => {
      this.unaryCalls.push('backupPartition');
      this.#heed(caller);
      return handle(request, caller);
    };
  }

  #heed({ routed }: Origin): void {
    if (routed) this.routed++;
  }

  /** The handlers, behind the refusals and delays of the test. */
  #guarded<H extends object>(handlers: H): H {
    const guard =
      (key: string, handle: Handler): Handler =>
      async (request, caller) => {
        if (HELD.has(key)) await this.hold;
        this.#refuse(request);
        if (key === 'updateTasks') this.updates.push(request as UpdateTasksRequest);
        if (key === 'leaseTasks') this.leases.push(request as LeaseTasksRequest);
        try {
          if (key === 'leaseTasks' && this.leaseInstead !== undefined) return await this.leaseInstead();
          const reply = await handle(request, caller);
          return GATHERED.has(key) ? { ...reply, unreachable: this.#missing(key, request) } : reply;
        } catch (thrown) {
          throw isClientError(thrown) ? refused(thrown) : thrown;
        }
      };
    const own = handlers as Readonly<Record<string, Handler>>;
    const guarded = methodKeys.flatMap((key) => (own[key] === undefined ? [] : [[key, guard(key, own[key])]]));
    return { ...handlers, ...Object.fromEntries(guarded) };
  }

  #missing(key: string, request: object): readonly UnreachableNode[] {
    const { queues = [] } = request as { readonly queues?: readonly string[] };
    return key === 'getQueueStats' && queues.length > 0 ? [] : this.cluster.silent;
  }

  #refuse(request: object): void {
    const { refusalOf } = this;
    const refusal = this.refusal ?? (refusalOf && queuesIn(request).map(refusalOf).find(Boolean));
    if (refusal !== undefined) throw refused(refusal);
  }
}

/** Everybody may do everything, and the tokens are written down. */
class HeardAccess extends Access {
  readonly #tokens: string[];

  constructor(tokens: string[]) {
    super({ table: new AccessTable({ principals: [] }) });
    this.#tokens = tokens;
  }

  override identify(credential: Parameters<Access['identify']>[0]): CallerAccess {
    if (credential.kind === 'bearer') this.#tokens.push(credential.token);
    return unlimitedAccess;
  }
}

const neverAborted = new AbortController().signal;
const caller = { address: 'test', access: unlimitedAccess, gone: false, signal: undefined };

const keyOf = (name: string): MethodKey => {
  const key = methodKeys.find((one) => methods[one].path.endsWith(`/${name}`));
  if (key === undefined) throw new Error(`no method is named ${name}`);
  return key;
};

const isClientError = (thrown: unknown): thrown is TaskMasterError =>
  thrown instanceof Error && 'maybeApplied' in thrown;

/** The refusal of a node that a client reads as this error. */
function refused({ reason, message, metadata, retryDelayMs }: TaskMasterError): Refusal {
  if (!isReason(reason)) throw new TypeError(`${reason} is no reason of a node`);
  return new Refusal(reason, message, { metadata, ...(retryDelayMs !== undefined && { retryDelayMs }) });
}

/** The queues of a request of any kind. */
function queuesIn(request: unknown): readonly string[] {
  if (typeof request !== 'object' || request === null) return [];
  return Object.entries(request).flatMap(([name, value]) => {
    if (name === 'queue' && typeof value === 'string') return [value];
    if (!Array.isArray(value)) return [];
    return value.flatMap((item: unknown) => (name === 'queues' && typeof item === 'string' ? [item] : queuesIn(item)));
  });
}
