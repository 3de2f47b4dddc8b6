import { Refusal } from '@taskmaster/engine/domain';
import { SeededRandom, VirtualClock } from '@taskmaster/engine/testing';
import {
  BatchLeaseTasksRequest,
  BatchUpdateTasksRequest,
  byMethodName,
  encodeToBuffer,
  type GroupMethodKey,
  type GroupRight,
  LeaseTasksRequest,
  methodKeys,
  methodName,
  methods,
  partitionOf,
  StreamRequest,
  type TaskMethodKey,
  taskMethodKeys,
  UpdateTasksRequest,
  WaitForTasksRequest,
} from '@taskmaster/proto';
import { callService, createRouterService, Router } from '@taskmaster/proxy/router';
import { FakeUpstream, FixedRoutes } from '@taskmaster/proxy/testing';
import type { CallerAccess } from '@taskmaster/server/access';
import { type RawService, refusalOf, type UnaryCaller } from '@taskmaster/server/calls';
import {
  accessOf,
  aDequeue,
  aLease,
  anEnqueue,
  anUpdate,
  aRelease,
  aRenew,
  aWait,
  sampleBytes,
} from '@taskmaster/server/testing';
import { expect, test } from 'vitest';
import { openWatchedEngine, type WatchedEngine } from '../testing/watched-engine.ts';
import { createHandlers } from './handlers.ts';
import { createNodeService } from './node-service.ts';

/*
 * Whatever bytes come: the router, the check of the rights and the service that applies a request read the same message. So the
 * same bytes go to a router in front of services, and to such a service without a router.
 *
 *  R1  No command reaches an engine that the rights of the caller do not cover.
 *  R2  A command reaches only the holder of its group.
 *  R3  No router passes on what its decoder does not read.
 *  R4  Bytes that a service applies or refuses without a router are applied or refused behind one, too.
 */

/** A night takes a million. */
const MESSAGES = Number(process.env.TASKMASTER_FUZZ_MESSAGES ?? 12_000);
const SEED = Number(process.env.TASKMASTER_SEED ?? 1);
const PARTITIONS = 16;
const NODES = ['a', 'b', 'c'].map((name) => ({ nodeId: name, name, address: `${name}:1`, alive: true }));
const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

const ALL = ['enqueue', 'lease', 'read', 'manage-queues'] as const;

const rules = accessOf({
  principals: [
    // One of the groups is the default group, whose name is empty.
    { name: 'tenant', tokens: [], rights: [{ groups: ['', 'own'], allow: ALL }] },
    { name: 'feeder', tokens: [], rights: [{ groups: ['*'], allow: ['enqueue'] }] },
  ],
});
const callers = { tenant: rules.identified('tenant'), feeder: rules.identified('feeder') };
type Principal = keyof typeof callers;

const DECODERS = byMethodName(methodKeys, (key): ((bytes: Uint8Array) => unknown) => methods[key].requestDeserialize);

const refuse = async () => {
  throw new Refusal('TASK_NOT_FOUND', 'refused by the test');
};

/** Every operation is refused after it was recorded, so that each is over at once. */
const refusingEngine = (): Promise<WatchedEngine> => openWatchedEngine({}, refuse);

const serviceOn = (engine: WatchedEngine): RawService => createNodeService(createHandlers(engine, SILENT));

async function setUp() {
  const engines = new Map(
    await Promise.all(NODES.map(async ({ address }) => [address, await refusingEngine()] as const)),
  );
  const services = new Map([...engines].map(([address, engine]) => [address, serviceOn(engine)]));
  const upstream = Object.assign(new FakeUpstream(), { isLocal: () => true });
  upstream.answer = ({ address, method, request, options }) => {
    const service = services.get(address);
    if (service === undefined) throw new TypeError(`no node has the address ${address}`);
    return callService(service, method, request, options, SILENT);
  };
  const clock = new VirtualClock();
  const router = new Router({
    routes: new FixedRoutes({ nodes: NODES, partitions: PARTITIONS }),
    upstream,
    clock,
    random: new SeededRandom(SEED),
    log: SILENT,
  });
  const direct = await refusingEngine();
  return { engines, upstream, clock, routed: createRouterService(router), direct, alone: serviceOn(direct) };
}

/** The groups that a command names. That of a listing or an end may be the group alone. */
function groupsIn(command: unknown, found = new Set<string>()): Set<string> {
  if (typeof command === 'string') return found.add(command);
  if (typeof command !== 'object' || command === null || command instanceof Uint8Array) return found;
  for (const [name, value] of Object.entries(command)) {
    if (name === 'group' && typeof value === 'string') found.add(value);
    else if (typeof value !== 'string') groupsIn(value, found);
  }
  return found;
}

const lengthOf = (command: unknown, list: string): number => {
  const items = (command as Record<string, unknown>)[list];
  return Array.isArray(items) ? items.length : 0;
};

/** What the rights of the caller do not cover. */
function excessOf(principal: Principal, method: Called, operation: string, command: unknown): string | undefined {
  const access: CallerAccess = callers[principal];
  const needed = operation.startsWith('update')
    ? [
        ...(lengthOf(command, 'enqueue') > 0 ? (['enqueue'] as const) : []),
        ...(['dequeue', 'renew', 'release'].some((list) => lengthOf(command, list) > 0) ? (['lease'] as const) : []),
      ]
    : rightsOf(method, operation);
  for (const group of groupsIn(command)) {
    for (const right of needed) if (!access.allows(right, group)) return `${operation} without ${right} on "${group}"`;
  }
  return undefined;
}

/** A method of the service. */
type Called = TaskMethodKey | 'stream';

/** The rights on groups that the operation takes with which the method is served. */
function rightsOf(method: Called, operation: string): readonly GroupRight[] {
  const scope = method === 'stream' ? undefined : methods[method].scope;
  if (scope?.of === 'group') return [scope.right];
  const rights = ITEM_RIGHTS[(operation in ITEM_RIGHTS ? operation : method) as keyof typeof ITEM_RIGHTS];
  if (rights === undefined) throw new TypeError(`${method} is served with ${operation}, which has no rights here`);
  return rights;
}

/** Updates: see above. Listings ask for the right on each queue that they find, and a wait for the right on each task. */
const ITEM_RIGHTS: { readonly [K in Exclude<TaskMethodKey, GroupMethodKey>]: readonly GroupRight[] } = {
  updateTasks: [],
  batchUpdateTasks: [],
  leaseTasks: ['lease'],
  batchLeaseTasks: ['lease'],
  waitForTasks: [],
  readEvents: ['read'],
  listQueues: [],
  getQueueStats: ['read'],
  getOverview: [],
  listSchedules: [],
};

const varint = (value: number): number[] => (value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)]);
const entry = (field: number, content: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from([...varint((field << 3) | 2), ...varint(content.length)]), content]);
const NOTHING = Buffer.alloc(0);
const text = (field: number, value: string): Buffer => entry(field, Buffer.from(value));

/** Bytes at which readers of messages have disagreed. */
const ODD = [
  '00',
  '0200',
  '07',
  '0c',
  '0b',
  '0b0c',
  '7b7c',
  '0e',
  'fa808080808080808000',
  'f80000',
  '92808080808080808000',
  '0a00',
  '1200',
  '5200',
  '0a7f',
  '08ffffffffffffffffff01',
  '0d00000000',
  '0900',
  'ffffffff0f',
  '120312',
].map((hex) => Buffer.from(hex, 'hex'));

class Messages {
  readonly #random: SeededRandom;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  queue(): string {
    const random = this.#random;
    return `${random.pick(['own#', 'other#', '', '#', 'third#'])}${random.pick(['mail', 'q', ''])}`;
  }

  update(): UpdateTasksRequest {
    const random = this.#random;
    const some = <T>(make: () => T): T[] => Array.from({ length: random.pick([0, 0, 1, 1, 2]) }, make);
    const queue = random.chance(0.8) ? this.queue() : undefined;
    const name = (): string => queue ?? this.queue();
    return anUpdate({
      enqueue: some(() =>
        anEnqueue(random.chance(0.8) ? { queue: name() } : { queue: random.pick(['', name()]), topic: name() }),
      ),
      dequeue: some(() => aDequeue({ queue: name() })),
      renew: some(() => aRenew({ queue: name() })),
      release: some(() => aRelease({ queue: name() })),
      requestId: random.chance(0.3) ? Buffer.from('an id') : new Uint8Array(0),
      parts: random.chance(0.1) ? [{ enqueues: 1, dequeues: 0, renewals: 0, releases: 0 }] : [],
    });
  }

  lease(): LeaseTasksRequest {
    const queues = Array.from({ length: 1 + this.#random.int(3) }, () => this.queue());
    return aLease({ queues, waitMs: 0 });
  }

  wait(): WaitForTasksRequest {
    const queue = this.queue();
    return aWait({ tasks: [{ queue, pid: Buffer.from('a'), leaseToken: this.#random.int(2) }], waitMs: 0 });
  }

  valid(method: Called): Buffer {
    const list = <T>(make: () => T): T[] => Array.from({ length: 1 + this.#random.int(3) }, make);
    switch (method) {
      case 'updateTasks':
        return encodeToBuffer(UpdateTasksRequest, this.update());
      case 'leaseTasks':
        return encodeToBuffer(LeaseTasksRequest, this.lease());
      case 'waitForTasks':
        return encodeToBuffer(WaitForTasksRequest, this.wait());
      case 'batchUpdateTasks':
        return encodeToBuffer(BatchUpdateTasksRequest, { requests: list(() => this.update()) });
      case 'batchLeaseTasks':
        return encodeToBuffer(BatchLeaseTasksRequest, { requests: list(() => this.lease()) });
      case 'stream':
        return encodeToBuffer(StreamRequest, {
          calls: list(() => ({
            id: this.#random.int(4),
            call: this.#random.pick([
              { $case: 'update' as const, value: this.update() },
              { $case: 'lease' as const, value: this.lease() },
              { $case: 'wait' as const, value: this.wait() },
            ]),
          })),
        });
      default:
        return Buffer.concat([sampleBytes(method, this.queue()), this.#random.pick([text(2, this.queue()), NOTHING])]);
    }
  }

  /** A message of the method, mostly changed at a place where a field or an item may begin. */
  of(method: Called): Buffer {
    const random = this.#random;
    let message = this.valid(method);
    for (let times = random.int(3); times > 0; times--) message = this.#changed(message, method);
    return message;
  }

  #changed(message: Buffer, method: Called): Buffer {
    const random = this.#random;
    const at = random.pick([0, message.length, random.int(message.length + 1)]);
    const [before, after] = [message.subarray(0, at), message.subarray(at)];
    switch (random.int(7)) {
      case 0:
      case 1:
        return Buffer.concat([before, random.pick(ODD), after]);
      case 2:
        return Buffer.concat([before, this.valid(method), after]);
      case 3:
        return Buffer.concat([before, entry(random.int(16), this.#odd())]);
      case 4:
        return Buffer.concat([before, text(random.pick([1, 10]), this.queue()), after]);
      case 5:
        return message.subarray(0, at);
      default: {
        const changed = Buffer.from(message);
        const place = random.int(Math.max(1, changed.length));
        if (place < changed.length) changed[place] = (changed[place] ?? 0) ^ (1 << random.int(8));
        return changed;
      }
    }
  }

  #odd(): Buffer {
    const random = this.#random;
    return Buffer.concat([text(1, this.queue()), random.pick(ODD), random.chance(0.5) ? text(2, 'a') : NOTHING]);
  }
}

test(`the same message is routed, checked and applied: ${MESSAGES} messages, seed ${SEED}`, async () => {
  const random = new SeededRandom(SEED);
  const messages = new Messages(random);
  const { engines, upstream, clock, routed, direct, alone } = await setUp();
  const called: readonly Called[] = [...taskMethodKeys, 'stream'];
  expect(Object.keys(routed.unary).toSorted()).toEqual(taskMethodKeys.map(methodName).toSorted());
  const ends = new Map<string, number>();
  const faults: string[] = [];

  const run = async (service: RawService, method: Called, bytes: Buffer, principal: Principal): Promise<string> => {
    const caller: UnaryCaller = {
      address: '1.1.1.1:1',
      routed: false,
      forwarded: false,
      access: callers[principal],
      gone: false,
      signal: undefined,
      deadline: Number.POSITIVE_INFINITY,
    };
    try {
      if (method !== 'stream') {
        await clock.run(service.unary[methodName(method)]?.(bytes, caller) ?? Promise.reject(new TypeError(method)));
        return 'ok';
      }
      const session = service.openStream(caller);
      const ended: string[] = [];
      for (const operation of session.read(bytes)) {
        if (!('run' in operation)) continue;
        ended.push(await clock.run(operation.run(caller).then(() => 'ok', reasonOf)));
      }
      session.close();
      return ended.join();
    } catch (thrown) {
      return reasonOf(thrown);
    }
  };
  const reasonOf = (thrown: unknown): string => {
    if (!(thrown instanceof Refusal)) throw thrown;
    return refusalOf(thrown, SILENT).reason;
  };

  for (let sent = 0; sent < MESSAGES; sent++) {
    const method = random.pick(called);
    const principal = random.pick(['tenant', 'feeder'] as const);
    const bytes = messages.of(method);
    for (const engine of [direct, ...engines.values()]) engine.asked.length = 0;
    upstream.asked.length = 0;
    const report = (problem: string): void =>
      void faults.push(`${problem}: ${method} of ${principal}, ${bytes.toString('hex')}`);

    const without = await run(alone, method, Buffer.from(bytes), principal);
    const behind = await run(routed, method, Buffer.from(bytes), principal);

    for (const { operation, command } of direct.asked) {
      const excess = excessOf(principal, method, operation, command);
      if (excess !== undefined) report(`R1 without a router: ${excess}`);
    }
    let reached = 0;
    for (const [address, { asked }] of engines) {
      for (const { operation, command } of asked) {
        reached++;
        const excess = excessOf(principal, method, operation, command);
        if (excess !== undefined) report(`R1: ${excess}`);
        if (operation === 'listQueues' || operation === 'schedules.list') continue;
        for (const group of groupsIn(command)) {
          const holder = NODES[partitionOf(group, PARTITIONS) % NODES.length]?.address;
          if (holder !== address) report(`R2: ${operation} of "${group}" at ${address}`);
        }
      }
    }
    for (const passed of upstream.asked) {
      try {
        DECODERS[passed.method](passed.request);
      } catch (error) {
        report(`R3: ${passed.method} ${String(error)}`);
      }
    }
    const isApplied = direct.asked.length > 0;
    if (isApplied !== reached > 0) report(`R4: ${without} without a router, ${behind} behind one`);
    const end = isApplied ? 'applied' : without;
    ends.set(end, (ends.get(end) ?? 0) + 1);
  }
  expect(faults.slice(0, 10)).toEqual([]);
  // Messages of each kind came.
  expect(ends.get('applied')).toBeGreaterThan(MESSAGES / 20);
  expect(ends.get('PERMISSION_DENIED')).toBeGreaterThan(MESSAGES / 20);
  expect(ends.get('MALFORMED_REQUEST')).toBeGreaterThan(MESSAGES / 20);
});
