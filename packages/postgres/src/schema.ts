import { familyNames, StoreCorruptError, StoreFailedError, StoreNewerError } from '@taskmaster/engine/ports';
import { DATA_FORMAT, dataFormats, oldestReaderOf } from '@taskmaster/proto';
import type pg from 'pg';
import { quoted } from './statements.ts';

/** The columns of the tables: each has its type, and whether it may be null. */
const STORE_COLUMNS = {
  format: 'integer',
  oldest_reader: 'integer',
  written_by: 'text',
  readable_from: 'text',
  /** Of several nodes that share the store; empty for one node alone. */
  cluster: 'text',
  /** Of the nodes that share the store. Null: one node has it alone. */
  request_id_window_ms: 'bigint null',
};
const NODE_COLUMNS = {
  name: 'text',
  fence: 'bigint',
  instance: 'text',
  seq: 'bigint',
  began: 'bigint',
  /** Up to this number commits were acknowledged, and are lost. Null: none, or an operator has accepted it. */
  lost: 'bigint null',
  seen: 'timestamp with time zone',
};
/** Of a store that nodes share. A partition without a row was never held. */
const PARTITION_COLUMNS = {
  id: 'integer',
  /** Name of the node. Null: none holds it. */
  holder: 'text null',
  epoch: 'bigint',
  /** When its last holder was fenced. Null: it gave the partition up itself. */
  fenced: 'timestamp with time zone null',
};
/** `key`: the first bytes of the key of the row. `hash` and `tail`: see `KEY_BYTES`. */
const ROW_COLUMNS = { key: 'bytea', hash: 'bytea', tail: 'bytea', value: 'bytea' };

const TABLES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  store: STORE_COLUMNS,
  node: NODE_COLUMNS,
  partition: PARTITION_COLUMNS,
  ...Object.fromEntries(familyNames.map((family) => [family, ROW_COLUMNS])),
};
const PRIMARY_KEYS: Readonly<Record<string, string>> = {
  node: 'name',
  partition: 'id',
  ...Object.fromEntries(familyNames.map((family) => [family, 'key, hash'])),
};

/** Rows of these families live for seconds: their space is taken back long before a fifth of a large table is dead. */
const CHURNING = new Set<string>(['log', 'ready', 'hidden', 'due', 'data', 'requests']);

function tableText(schema: string, table: string): string[] {
  const name = `${quoted(schema)}.${quoted(table)}`;
  const columns = Object.entries(TABLES[table] ?? {}).map(([column, type]) =>
    type.endsWith(' null') ? `${column} ${type.slice(0, -' null'.length)}` : `${column} ${type} NOT NULL`,
  );
  const key = PRIMARY_KEYS[table];
  if (key !== undefined) columns.push(`PRIMARY KEY (${key})`);
  // The row of a node changes with each commit: with room in its page, no index changes.
  const options =
    table === 'node' || table === 'partition' ? ' WITH (fillfactor = 10)' : CHURNING.has(table) ? CHURN_OPTIONS : '';
  const create = `CREATE TABLE ${name} (${columns.join(', ')})${options}`;
  // Payloads are opaque, and often compressed by their writers already.
  return TABLES[table] === ROW_COLUMNS
    ? [create, `ALTER TABLE ${name} ALTER COLUMN value SET STORAGE EXTERNAL`]
    : [create];
}

const CHURN_OPTIONS =
  ' WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0, ' +
  'autovacuum_vacuum_insert_scale_factor = 1, toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_cost_delay = 0)';

/** Creates the tables if there is no store in the schema, or checks those that are there. To be called within a transaction. */
export async function prepareSchema(
  client: pg.Client,
  schema: string,
  release: string,
  isShared: boolean,
): Promise<void> {
  // Two nodes that start at the same time do this one after the other.
  await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`taskmaster ${schema}`]);
  const found = await columnsIn(client, schema);
  if (found.size === 0) await create(client, schema, release);
  else {
    assertOurs(found, schema);
    await checkFormat(client, schema, release, isShared);
  }
}

async function create(client: pg.Client, schema: string, release: string): Promise<void> {
  const { rows } = await client.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
  // Only if it is missing, because the right to create schemas is needed even if there is nothing to do.
  if (rows.length === 0) await client.query(`CREATE SCHEMA ${quoted(schema)}`);
  for (const table of Object.keys(TABLES)) for (const text of tableText(schema, table)) await client.query(text);
  const oldest = oldestReaderOf(dataFormats);
  await client.query(`INSERT INTO ${quoted(schema)}.store VALUES ($1, $2, $3, $4, '', NULL)`, [
    DATA_FORMAT,
    oldest.format,
    release,
    oldest.release,
  ]);
}

/** The columns of all tables of the schema: `table.column` and its type. */
async function columnsIn(client: pg.Client, schema: string): Promise<ReadonlyMap<string, string>> {
  const { rows } = await client.query<{ at: string; type: string }>(
    `SELECT c.relname || '.' || a.attname AS at, format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN '' ELSE ' null' END
       || CASE WHEN i.indisprimary THEN ' key' ELSE '' END AS type
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey)
     WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'f', 'm')`,
    [schema],
  );
  return new Map(rows.map(({ at, type }) => [at, type]));
}

function assertOurs(found: ReadonlyMap<string, string>, schema: string): void {
  const expected = new Map<string, string>();
  for (const [table, columns] of Object.entries(TABLES)) {
    for (const [column, type] of Object.entries(columns)) {
      expected.set(`${table}.${column}`, PRIMARY_KEYS[table]?.split(', ').includes(column) ? `${type} key` : type);
    }
  }
  const problems = [...expected].flatMap(([at, type]) => {
    const is = found.get(at);
    if (is === undefined) return [`${at} is missing`];
    return is === type ? [] : [`${at} is ${is} instead of ${type}`];
  });
  const [first] = problems;
  if (first === undefined) return;
  const isForeign = problems.length >= expected.size / 2;
  throw new StoreCorruptError(
    isForeign
      ? `the schema ${schema} has tables of something else (${first}): name another schema for TaskMaster (store.schema). Nothing was changed`
      : `the tables in the schema ${schema} were changed (${problems.join(', ')}): undo the change, or restore them from a backup. Nothing was changed`,
  );
}

interface StoreRow {
  readonly format: number;
  readonly oldest_reader: number;
  readonly written_by: string;
  readonly readable_from: string;
  readonly cluster: string;
}

async function checkFormat(client: pg.Client, schema: string, release: string, isShared: boolean): Promise<void> {
  const { rows } = await client.query<StoreRow>(`SELECT * FROM ${quoted(schema)}.store`);
  const [row] = rows;
  if (row === undefined || rows.length > 1) {
    throw new StoreCorruptError(
      `the table store in the schema ${schema} has ${rows.length} rows instead of one: restore it from a backup. Nothing was changed`,
    );
  }
  if (row.oldest_reader > DATA_FORMAT) {
    throw new StoreNewerError(
      `the schema ${schema} has data format ${row.format}, written by release ${row.written_by}; this release, ${release}, reads data ` +
        `formats up to ${DATA_FORMAT}. Nothing was changed. Start release ${row.readable_from} or newer, or name another schema`,
    );
  }
  if (row.cluster !== '' && !isShared) {
    throw new StoreFailedError(
      `the schema ${schema} is the store of the nodes of a cluster, and this node was started without --join and --bootstrap. Nothing was changed`,
    );
  }
  if (row.format >= DATA_FORMAT) return;
  const oldest = oldestReaderOf(dataFormats);
  await client.query(
    `UPDATE ${quoted(schema)}.store SET format = $1, oldest_reader = $2, written_by = $3, readable_from = $4`,
    [DATA_FORMAT, oldest.format, release, oldest.release],
  );
}
