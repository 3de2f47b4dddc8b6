import type { Instant, Key } from '@taskmaster/engine/domain';
import {
  Family,
  StoreClosedError,
  StoreCorruptError,
  StoreFailedError,
  StoreFullError,
  StoreLostError,
  WriteBatch,
} from '@taskmaster/engine/ports';
import { SeededRandom, VirtualTime } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';
import { DatabaseError } from './database.ts';
import type { After } from './link.ts';
import type { PostgresStore } from './postgres-store.ts';
import { standingOf } from './standing.ts';
import { SimDatabase, type SimDatabaseOptions } from './testing/sim-database.ts';
import { openOnSim } from './testing/sim-process.ts';

/** POSTGRES_SEEDS and POSTGRES_FIRST_SEED: a longer run. */
const SEEDS = Number(process.env.POSTGRES_SEEDS ?? 60);
const FIRST_SEED = Number(process.env.POSTGRES_FIRST_SEED ?? 1);
const STEPS = 120;
const NODE = 'node';
const KEYS = 6;
const keyOf = (number: number): Key => `k${number}` as Key;
const OWNER = 'owner' as Key;

interface Write {
  readonly number: number;
  readonly keys: readonly Key[];
  isAcknowledged: boolean;
}

/** A process that uses the store, until it is killed or has lost it. */
class Process {
  readonly id: number;
  readonly store: PostgresStore;
  readonly writes: Write[] = [];
  /** Rejections that a process may not get. */
  readonly faults: string[] = [];
  /** Calls without an answer. */
  readonly asked = new Set<Promise<void>>();
  isOver = false;

  constructor(id: number, store: PostgresStore) {
    this.id = id;
    this.store = store;
    this.write([OWNER]);
  }

  /** Writes its id and the number of the write under these keys, and once under a key that no later write touches. */
  write(keys: readonly Key[]): void {
    const write: Write = { number: this.writes.length, keys, isAcknowledged: false };
    this.writes.push(write);
    const batch = new WriteBatch();
    const value = Buffer.from(`${this.id} ${write.number}`);
    for (const key of keys) batch.put(Family.ready, key, value);
    batch.put(Family.log, `${this.id}/${String(write.number).padStart(6, '0')}` as Key, value);
    this.#expect(
      this.store.write(batch).then(() => {
        write.isAcknowledged = true;
      }),
    );
  }

  /** A read sees at least the writes that were acknowledged before it, and none of a later process. */
  read(key: Key): void {
    const known = this.writes.findLast((write) => write.isAcknowledged && write.keys.includes(key));
    const isOwner = this.writes[0]?.isAcknowledged === true;
    this.#expect(
      this.store.get(Family.ready, [key, OWNER]).then(([value, owner]) => {
        const [by = -1, number = -1] = Buffer.from(value ?? '')
          .toString()
          .split(' ')
          .map(Number);
        if (
          isOwner &&
          !Buffer.from(owner ?? '')
            .toString()
            .startsWith(`${this.id} `)
        ) {
          this.faults.push(`process ${this.id} reads of owner ${Buffer.from(owner ?? '')}`);
        }
        if (known !== undefined && (by !== this.id || number < known.number)) {
          this.faults.push(`process ${this.id} reads ${by} ${number} after its write ${known.number} of ${key}`);
        }
      }),
    );
  }

  #expect(call: Promise<void>): void {
    const done = call.catch((error: unknown) => {
      if (error instanceof StoreFullError) return;
      const isLoss = error instanceof StoreLostError || error instanceof StoreClosedError;
      if (!isLoss && !(this.isOver && error instanceof StoreFailedError)) this.faults.push(String(error));
    });
    this.asked.add(done);
    void done.then(() => this.asked.delete(done));
  }
}

/** A store, or a database, that does not check one of the conditions. */
interface Mutant {
  readonly unchecked?: SimDatabaseOptions['unchecked'];
  readonly standing?: typeof standingOf;
}

/** One history of processes that have one name, on a database that fails in every way. Throws for a broken promise. */
async function play(seed: number, mutant: Mutant) {
  const random = new SeededRandom(seed);
  const time = new VirtualTime();
  const after: After = (ms, callback) => time.at((time.now() + Math.ceil(ms)) as Instant, callback);
  const database = new SimDatabase({ random: random.fork(), after, faults: 0.1, unchecked: mutant.unchecked });
  const processes: Process[] = [];
  /** Acknowledged writes that the database has lost. */
  const lost = new Set<string>();
  const counts = { fenced: 0, reverted: 0, lost: 0, acknowledged: 0 };

  const start = async (): Promise<void> => {
    for (;;) {
      try {
        const store = await openOnSim(database, NODE, after, mutant.standing);
        processes.push(new Process(processes.length, store));
        return;
      } catch (error) {
        if (error instanceof StoreCorruptError) database.acceptLoss(NODE);
        else if (!(error instanceof DatabaseError)) throw error;
      }
    }
  };
  const kill = ({ store }: Process): void => {
    const process = processes.find((each) => each.store === store);
    if (process !== undefined) process.isOver = true;
    store.giveUp();
  };
  const numbers = (): Map<number, number[]> => {
    const all = new Map<number, number[]>();
    for (const { key } of database.rowsOf(Family.log)) {
      const [id = 0, number = 0] = key.split('/').map(Number);
      all.set(id, [...(all.get(id) ?? []), number]);
    }
    return all;
  };
  const check = (): void => {
    const applied = numbers();
    for (const { id, writes, faults } of processes) {
      if (faults.length > 0) throw new Error(faults.join('; '));
      const has = new Set(applied.get(id));
      for (const { number, isAcknowledged } of writes) {
        if (!isAcknowledged || has.has(number)) continue;
        const name = `${id}/${number}`;
        if (!lost.has(name)) throw new Error(`write ${name} is acknowledged and not in the database`);
      }
    }
    // Commits of a process come in order, and none after another process has its place.
    let present = '';
    let last = 0;
    for (const deed of database.standing) {
      if (deed.kind === 'register') present = deed.me.instance;
      else if (deed.kind === 'commit') {
        if (deed.by.instance !== present) throw new Error('a process commits whose place was taken');
        // One may be left out, so that it is never applied.
        if (deed.commit.seq !== last + 1 && deed.commit.seq !== last + 2) {
          throw new Error(`commit ${deed.commit.seq} follows ${last}`);
        }
        last = deed.commit.seq;
      }
    }
  };

  const lose = (): void => {
    const before = processes.flatMap(({ id, writes }) =>
      writes.filter(({ isAcknowledged }) => isAcknowledged).map(({ number }) => ({ id, number })),
    );
    database.loseLast(1 + random.int(6));
    const applied = numbers();
    for (const { id, number } of before) {
      if (applied.get(id)?.includes(number)) continue;
      lost.add(`${id}/${number}`);
      counts.lost++;
    }
  };

  await time.run(start());
  for (let step = 0; step < STEPS; step++) {
    const alive = processes.filter(({ isOver }) => !isOver);
    const process = alive.length === 0 ? undefined : random.pick(alive);
    const choice = random.int(100);
    if (process === undefined || choice < 4) await time.run(start());
    else if (choice < 7) kill(process);
    else if (choice < 10) database.failover();
    else if (choice < 12) database.down(random.int(4000));
    else if (choice < 14) lose();
    else if (choice < 16) database.hasSpace = false;
    else if (choice < 20) database.hasSpace = true;
    else if (choice < 60) process.write(Array.from({ length: 1 + random.int(3) }, () => keyOf(random.int(KEYS))));
    else if (choice < 75) process.read(keyOf(random.int(KEYS)));
    if (random.chance(0.5)) await time.advance(random.int(40));
    else if (random.chance(0.1)) await time.advance(random.int(5000));
    check();
  }
  // In the end everything is settled: no call waits for ever on a database that works.
  database.faults = 0;
  database.hasSpace = true;
  await time.advance(60_000);
  check();
  for (const { id, asked, isOver } of processes) {
    if (asked.size > 0 && !isOver) throw new Error(`${asked.size} calls of process ${id} are never answered`);
  }
  for (const { id, writes, store } of processes) {
    const isLost = store.state.kind === 'failed';
    const hasLost = writes.some(({ number }) => lost.has(`${id}/${number}`));
    if (hasLost && !isLost && !processes[id]?.isOver)
      throw new Error(`process ${id} serves a database that lost its work`);
    counts.acknowledged += writes.filter(({ isAcknowledged }) => isAcknowledged).length;
    if (isLost && store.state.cause instanceof StoreLostError) counts[store.state.cause.kind]++;
    kill({ store } as Process);
  }
  return counts;
}

describe('processes that share a simulated database', () => {
  test(`keep what they promise in ${SEEDS} histories`, async () => {
    const sums = { fenced: 0, reverted: 0, lost: 0, acknowledged: 0 };
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
      try {
        const counts = await play(seed, {});
        for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += counts[name];
      } catch (error) {
        throw new Error(`seed ${seed}: ${error instanceof Error ? error.message : error}`, { cause: error });
      }
    }
    // Otherwise the histories would show nothing.
    expect(
      Object.values(sums).every((sum) => sum > SEEDS / 4),
      JSON.stringify(sums),
    ).toBe(true);
  });

  const mutants: readonly (readonly [string, Mutant])[] = [
    ['the fence in the condition of a commit', { unchecked: 'fence' }],
    ['the number in the condition of a commit', { unchecked: 'number' }],
    [
      'the comparison with the acknowledged number',
      {
        standing: (...known) => {
          const standing = standingOf(...known);
          return standing === 'reverted' ? 'same' : standing;
        },
      },
    ],
  ];
  test.each(mutants)('need %s', async (_fence, mutant) => {
    let failure: string | undefined;
    let seed = 0;
    while (failure === undefined && seed < 50) {
      seed++;
      await play(seed, mutant).catch((error: unknown) => {
        failure = String(error);
      });
    }
    expect(failure, `within ${seed} histories`).toBeDefined();
  });
});
