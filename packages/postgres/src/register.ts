import { randomBytes } from 'node:crypto';
import { encodeAcceptedLoss, type Instant, metaKeys } from '@taskmaster/engine/domain';
import {
  Family,
  familyNames,
  StoreCorruptError,
  StoreFailedError,
  StoreUnfinishedError,
  StoreUsedError,
} from '@taskmaster/engine/ports';
import type pg from 'pg';
import type { Registration } from './database.ts';
import type { FencedNode } from './postgres-holders.ts';
import { prepareSchema } from './schema.ts';
import { quoted, SEEN } from './statements.ts';

export interface Registered {
  readonly me: Registration;
  /** The number of the last commit under this name. */
  readonly seq: number;
  /** How many processes have had the name before. */
  readonly earlier: number;
}

/** For the commit in flight of another process, in ms. */
const LONGEST_WAIT_MS = 30_000;

/** A node that takes its name. */
interface Registering {
  readonly name: string;
  readonly release: string;
  /** Undefined: no nodes of a cluster share the store. */
  readonly shared: SharedSettings | undefined;
}

/** Settings of nodes that share a store, because rows depend on them. */
export interface SharedSettings {
  /** How long nodes remember request ids, in ms. A node with another time would apply a repeated request again. */
  readonly requestIdWindowMs: number;
}

/**
 * The name under which a restore writes. No node has it. Its row stays when the restore has ended, so that an earlier process
 * that restored, and wakes, finds that another one has taken its place.
 */
const RESTORE_NAME = '(restore)';

/** The row of the store that a restore writes last. */
const LAST_OF_RESTORE = Buffer.from(metaKeys.node, 'latin1');

/**
 * Takes a name over: waits for the commit in flight of the process that has it, and ends its power to commit (R1). Creates the
 * store if there is none. Changes nothing if it rejects.
 */
export function register(
  client: pg.Client,
  schema: string,
  { name, release, shared }: Registering,
): Promise<Registered> {
  return inTransaction(client, async () => {
    await client.query(`SET LOCAL lock_timeout = ${LONGEST_WAIT_MS}`);
    await prepareSchema(client, schema, release, shared !== undefined);
    const node = `${quoted(schema)}.node`;
    const all = await client.query<{ name: string; lost: string | null }>(`SELECT name, lost FROM ${node}`);
    const known = all.rows.filter((row) => row.name !== RESTORE_NAME);
    if (known.length < all.rows.length && !(await isRestored(client, schema))) {
      throw new StoreUnfinishedError(
        `a restore into the schema ${schema} has not finished: run the same restore again, until it succeeds. Nothing was changed`,
      );
    }
    if (shared !== undefined) await shareStore(client, schema, shared, known[0]?.name);
    const other = known.find((row) => row.name !== name);
    if (other !== undefined && shared === undefined) {
      throw new StoreFailedError(
        `the schema ${schema} is the store of node ${other.name} alone: start this one with --name ${other.name} to take its ` +
          `place, or name another schema (store.schema). Nothing was changed`,
      );
    }
    const lost = known.find((row) => row.name === name)?.lost;
    if (lost !== undefined && lost !== null) {
      throw new StoreCorruptError(
        `the database has lost commits of node ${name} that were acknowledged, up to number ${lost}: restore them (another server of the ` +
          `database may have them); or, to continue with the remaining data, run "taskmaster-node accept-loss ${name}". Nothing was changed`,
      );
    }
    const registered = await takeName(client, schema, name);
    if (shared !== undefined) await takeFrom(client, schema, name, 0);
    return registered;
  });
}

/**
 * Begins a restore into a schema without data, or again into one whose restore has not finished, and takes the place of a process
 * that restores there. Changes nothing if it rejects, with `StoreUsedError` if there is data.
 */
export function registerRestore(client: pg.Client, schema: string, release: string): Promise<Registered> {
  return inTransaction(client, async () => {
    await client.query(`SET LOCAL lock_timeout = ${LONGEST_WAIT_MS}`);
    await prepareSchema(client, schema, release, false);
    const { rows: nodes } = await client.query<{ name: string }>(`SELECT name FROM ${quoted(schema)}.node`);
    const other = nodes.find(({ name }) => name !== RESTORE_NAME);
    if (other !== undefined || (await isRestored(client, schema))) {
      const whose = other === undefined ? 'a finished restore' : `node ${other.name}`;
      throw new StoreUsedError(`the schema ${schema} has the data of ${whose}. Nothing was changed`);
    }
    const registered = await takeName(client, schema, RESTORE_NAME);
    const tables = familyNames.map((family) => `${quoted(schema)}.${quoted(family)}`);
    await client.query(`TRUNCATE ${tables.join(', ')}`);
    // An earlier restore may have noticed a loss of what is written again now.
    await client.query(`UPDATE ${quoted(schema)}.node SET lost = NULL WHERE name = $1`, [RESTORE_NAME]);
    return registered;
  });
}

/** True if the schema has all data of a node. */
async function isRestored(client: pg.Client, schema: string): Promise<boolean> {
  const meta = `${quoted(schema)}.${quoted(familyNames[Family.meta] ?? '')}`;
  const { rows } = await client.query(`SELECT 1 FROM ${meta} WHERE key = $1`, [LAST_OF_RESTORE]);
  return rows.length > 0;
}

async function takeName(client: pg.Client, schema: string, name: string): Promise<Registered> {
  const instance = randomBytes(12).toString('hex');
  const { rows } = await client.query<{ fence: string; seq: string }>(
    `INSERT INTO ${quoted(schema)}.node (name, fence, instance, seq, began, seen) VALUES ($1, 1, $2, 0, 0, now())
     ON CONFLICT (name) DO UPDATE SET fence = node.fence + 1, instance = $2, began = node.seq, seen = now() RETURNING fence, seq`,
    [name, instance],
  );
  const fence = Number(rows[0]?.fence);
  return { me: { name, fence, instance }, seq: Number(rows[0]?.seq), earlier: fence - 1 };
}

/** Nobody has recorded a cluster yet. */
const UNRECORDED = '?';

/** Marks a new store as one that nodes share. `alone`: the node that has used it so far. */
async function shareStore(
  client: pg.Client,
  schema: string,
  { requestIdWindowMs }: SharedSettings,
  alone: string | undefined,
): Promise<void> {
  const store = `${quoted(schema)}.store`;
  const { rows } = await client.query<{ cluster: string; request_id_window_ms: string }>(`SELECT * FROM ${store}`);
  const [row] = rows;
  if (row?.cluster !== '') {
    if (Number(row?.request_id_window_ms) === requestIdWindowMs) return;
    throw new StoreFailedError(
      `the members that share the schema ${schema} have engine.requestIdWindowMs ${row?.request_id_window_ms}, and this node has ` +
        `${requestIdWindowMs}: give it the same. Nothing was changed`,
    );
  }
  if (alone !== undefined) {
    throw new StoreFailedError(
      `the schema ${schema} is the store of node ${alone} alone, which the members of a cluster cannot share: name another schema ` +
        `(store.schema). Nothing was changed`,
    );
  }
  await client.query(`UPDATE ${store} SET cluster = $1, request_id_window_ms = $2`, [UNRECORDED, requestIdWindowMs]);
}

/** Takes all partitions from a node. It cannot commit any more, and was not heard for this time, in ms. */
async function takeFrom(client: pg.Client, schema: string, name: string, silentMs: number): Promise<void> {
  const partition = `${quoted(schema)}.partition`;
  const fenced = `clock_timestamp() - $2::double precision * interval '1 millisecond'`;
  await client.query(`UPDATE ${partition} SET holder = NULL, fenced = ${fenced} WHERE holder = $1`, [name, silentMs]);
}

/**
 * Ends the power of a node to commit, if its fence is still this one, after waiting for its commit in flight (R6). Takes its
 * partitions from it in the same transaction, in a statement of its own: it must see what that commit has taken. False if it has
 * another fence by now, if `me` was fenced itself, or if the database has lost commits of the node: then an operator must decide.
 */
export function fenceNode(
  client: pg.Client,
  schema: string,
  me: Registration,
  { name, fence, seen, silentMs }: FencedNode,
): Promise<boolean> {
  return inTransaction(client, async () => {
    await client.query(`SET LOCAL lock_timeout = ${LONGEST_WAIT_MS}`);
    const node = `${quoted(schema)}.node`;
    const own = await client.query(`SELECT 1 FROM ${node} WHERE name = $1 AND instance = $2 FOR SHARE`, [
      me.name,
      me.instance,
    ]);
    if (own.rowCount === 0) return false;
    const fenced = await client.query<{ seen: string }>(
      `UPDATE ${node} SET fence = fence + 1, instance = $3, began = seq WHERE name = $1 AND fence = $2 AND lost IS NULL
       RETURNING ${SEEN}::text AS seen`,
      [name, fence, `fenced by ${me.name}, ${randomBytes(12).toString('hex')}`],
    );
    if (fenced.rowCount === 0) return false;
    await takeFrom(client, schema, name, fenced.rows[0]?.seen === seen ? silentMs : 0);
    return true;
  });
}

/** Records a cluster in a shared store, unless one is recorded. Resolves with the recorded one. */
export async function claimCluster(
  client: pg.Client,
  schema: string,
  cluster: RecordedCluster,
): Promise<RecordedCluster> {
  const store = `${quoted(schema)}.store`;
  const { clusterId, firstNode } = cluster;
  await client.query(`UPDATE ${store} SET cluster = $1 WHERE cluster = $2`, [`${clusterId} ${firstNode}`, UNRECORDED]);
  const { rows } = await client.query<{ cluster: string }>(`SELECT cluster FROM ${store}`);
  const [recordedId = '', recordedNode = ''] = (rows[0]?.cluster ?? '').split(' ');
  return { clusterId: recordedId, firstNode: recordedNode };
}

/** The cluster whose members share a store, and the id of the node that began it. */
export interface RecordedCluster {
  readonly clusterId: string;
  readonly firstNode: string;
}

/** What an operator accepts. */
export interface AcceptedLoss {
  /** Commits were acknowledged up to this number. */
  readonly acknowledged: number;
  /** The database has commits up to this number. */
  readonly seq: number;
}

/** Lets the node with this name start although the database has lost commits. Undefined: it has not lost any. */
export function acceptLoss(
  client: pg.Client,
  schema: string,
  name: string,
  now: Instant,
): Promise<AcceptedLoss | undefined> {
  return inTransaction(client, async () => {
    const node = `${quoted(schema)}.node`;
    const { rows } = await client.query<{ lost: string | null; seq: string }>(
      `SELECT lost, seq FROM ${node} WHERE name = $1 FOR UPDATE`,
      [name],
    );
    const [row] = rows;
    if (row === undefined) throw new StoreFailedError(`no node ${name} has used the schema ${schema}`);
    if (row.lost === null) return undefined;
    await client.query(`UPDATE ${node} SET lost = NULL WHERE name = $1`, [name]);
    const meta = `${quoted(schema)}.meta`;
    await client.query(
      `INSERT INTO ${meta} (key, hash, tail, value) VALUES ($1, '', '', $2)
         ON CONFLICT (key, hash) DO UPDATE SET value = excluded.value`,
      [Buffer.from(metaKeys.acceptedLoss, 'latin1'), encodeAcceptedLoss(now)],
    );
    return { acknowledged: Number(row.lost), seq: Number(row.seq) };
  });
}

async function inTransaction<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  await client.query('BEGIN');
  try {
    const done = await work();
    await client.query('COMMIT');
    return done;
  } catch (error) {
    // The session may be gone; then nothing is left to roll back.
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}
