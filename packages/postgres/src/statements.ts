import type { Key } from '@taskmaster/engine/domain';
import { type Family, familyNames, type Gift, type KeyRange, type ScanLimit } from '@taskmaster/engine/ports';
import type { Change } from './changes.ts';
import type { Commit, Registration } from './database.ts';

/** A statement with its parameters. Statements of one name have one text, which the server parses once in a session. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly values: (string | number | Buffer)[];
}

/** A part of a commit, which has its parameters behind those of the parts before. */
interface Part {
  /** `insert`: of rows that are new. `deleteLong`: some of the keys have more than `KEY_BYTES`. */
  readonly kind: 'put' | 'insert' | 'delete' | 'deleteLong' | 'deleteRange';
  readonly family: Family;
}

/** The statements of a schema. */
export class Statements {
  /** The quoted name of the schema. */
  readonly #schema: string;
  readonly #texts = new Map<string, string>();

  constructor(schema: string) {
    this.#schema = quoted(schema);
  }

  /**
   * The only statement that writes rows (R1, R4). Its parts see the rows as they were before it, and nothing of each other. So
   * they change different rows, and each of them asks whether the condition held. `areNew`: none of the family's rows exists.
   */
  commit(
    { name, fence, instance }: Registration,
    { seq, behind, changes, deletion }: Commit,
    areNew: (family: Family) => boolean,
  ): Statement {
    const values: Statement['values'] = [seq, name, fence, instance, behind ?? seq - 1];
    const parts: Part[] = [];
    for (const [family, rows] of [...changes].toSorted(([a], [b]) => a - b)) {
      const puts: Change[] = [];
      const deletes: Change[] = [];
      for (const change of rows.values()) (change.value === undefined ? deletes : puts).push(change);
      if (puts.length > 0) {
        parts.push({ kind: areNew(family) ? 'insert' : 'put', family });
        values.push(byteArray(puts.map(({ key }) => key)), byteArray(puts.map(({ value }) => value ?? EMPTY)));
      }
      if (deletes.length > 0) {
        const isLong = deletes.some(({ key }) => key.byteLength > KEY_BYTES);
        parts.push({ kind: isLong ? 'deleteLong' : 'delete', family });
        values.push(byteArray(deletes.map(({ key }) => key)));
      }
    }
    if (deletion !== undefined) {
      parts.push({ kind: 'deleteRange', family: deletion.family });
      values.push(...boundsOf(deletion.range), deletion.most);
    }
    // A server knows 63 characters of a name.
    const statement = parts.map(({ kind, family }) => LETTERS[kind] + family).join('');
    return { name: `commit ${statement}`, text: this.#text(statement, () => this.#commitText(parts)), values };
  }

  /** All partitions and nodes; tells the others that this node is alive. */
  holders({ name, fence, instance }: Registration): Statement {
    const text = this.#text('holders', () => {
      const partitions = `SELECT id::text, holder, epoch::text, (extract(epoch FROM clock_timestamp() - fenced) * 1000)::bigint::text FROM ${this.#schema}.partition`;
      const nodes = `SELECT 'node', name, fence::text, ${SEEN}::text FROM ${this.#schema}.node`;
      const rows = `SELECT NULL::text, NULL::text, NULL::text, NULL::text UNION ALL ${partitions} UNION ALL ${nodes}`;
      return `WITH ${this.#me()} SELECT (SELECT count(*) FROM me)::text, r.* FROM (${rows}) r`;
    });
    return { name: 'holders', text, values: [name, fence, instance] };
  }

  /** Lets this node hold those of the partitions that no node holds (R5). */
  take({ name, fence, instance }: Registration, ids: readonly number[]): Statement {
    const text = this.#text('take', () => {
      const table = `${this.#schema}.partition`;
      const mine = `INSERT INTO ${table} AS p (id, holder, epoch) SELECT id, me.name, 1 FROM me, unnest($4::integer[]) AS t(id)`;
      const taken = `${mine} ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, epoch = p.epoch + 1 WHERE p.holder IS NULL`;
      return `WITH ${this.#me()}, taken AS (${taken}) SELECT count(*)::text FROM me`;
    });
    return { name: 'take', text, values: [name, fence, instance, `{${ids.toSorted((a, b) => a - b).join()}}`] };
  }

  /** Gives partitions up that this node holds at these epochs (R5, R7). */
  give({ name, fence, instance }: Registration, gifts: readonly Gift[]): Statement {
    const text = this.#text('give', () => {
      const table = `${this.#schema}.partition`;
      const given = `unnest($4::integer[], $5::bigint[], $6::text[]) AS g(id, epoch, next)`;
      const changes = `holder = NULLIF(g.next, ''), epoch = p.epoch + (g.next <> '')::integer, fenced = NULL`;
      const update = `UPDATE ${table} p SET ${changes} FROM me, ${given} WHERE p.id = g.id AND p.epoch = g.epoch AND p.holder = me.name`;
      return `WITH ${this.#me()}, given AS (${update}) SELECT count(*)::text FROM me`;
    });
    const inOrder = gifts.toSorted((a, b) => a.id - b.id);
    const ids = `{${inOrder.map(({ id }) => id).join()}}`;
    const epochs = `{${inOrder.map(({ epoch }) => epoch).join()}}`;
    const next = `{${inOrder.map(({ to = '' }) => `"${to.replaceAll(/["\\]/g, '\\$&')}"`).join()}}`;
    return { name: 'give', text, values: [name, fence, instance, ids, epochs, next] };
  }

  /** The row of this node, if the process still has its name. */
  #me(): string {
    const condition = 'name = $1 AND fence = $2::bigint AND instance = $3';
    return `me AS (UPDATE ${this.#schema}.node SET seen = now() WHERE ${condition} RETURNING name)`;
  }

  node(name: string): Statement {
    const text = `SELECT ${NODE} FROM ${this.#schema}.node n WHERE n.name = $1`;
    return { name: 'node', text, values: [name] };
  }

  markLost(name: string, acknowledged: number): Statement {
    const lost = 'SET lost = greatest(coalesce(lost, 0), $2::bigint)';
    return {
      name: 'lost',
      text: `UPDATE ${this.#schema}.node ${lost}, fence = fence + 1, instance = '' WHERE name = $1`,
      values: [name, acknowledged],
    };
  }

  get(name: string, family: Family, keys: readonly Key[]): Statement {
    const text = this.#text(`g${family}`, () => {
      const found = `SELECT k.place, d.value FROM unnest($2::bytea[]) WITH ORDINALITY k(key, place) JOIN ${this.#table(family)} d ON d.key = ${headOf('k.key')} AND d.hash = ${hashOf('k.key')}`;
      return `SELECT ${NODE}, r.place, r.value FROM ${this.#schema}.node n LEFT JOIN (${found}) r ON true WHERE n.name = $1`;
    });
    return { name: `g${family}`, text, values: [name, byteArray(keys.map((key) => Buffer.from(key, 'latin1')))] };
  }

  /** Rows in key order. Reads the sizes of values first: those beyond the bytes are not read. */
  scan(name: string, family: Family, range: KeyRange, { rows, bytes }: ScanLimit): Statement {
    const text = this.#text(`s${family}`, () => {
      const first = `SELECT key, tail, value FROM ${this.#table(family)} WHERE ${within('$2', '$3')} ORDER BY key, tail LIMIT $4`;
      const bytes = 'octet_length(key) + octet_length(tail) + octet_length(value)';
      const summed = `SELECT key, tail, value, row_number() OVER w AS place, sum(${bytes}) OVER w AS total FROM (${first}) f WINDOW w AS (ORDER BY key, tail ROWS UNBOUNDED PRECEDING)`;
      const bounded = `SELECT key || tail AS key, value FROM (${summed}) s WHERE total <= $5 OR place = 1`;
      return `SELECT ${NODE}, r.key, r.value FROM ${this.#schema}.node n LEFT JOIN (${bounded}) r ON true WHERE n.name = $1 ORDER BY r.key`;
    });
    return { name: `s${family}`, text, values: [name, ...boundsOf(range), limitOf(rows), limitOf(bytes)] };
  }

  measure(name: string): Statement {
    const tables = familyNames.map((family) => `pg_total_relation_size('${this.#schema}.${quoted(family)}')`);
    const text = `SELECT ${NODE}, ${tables.join(' + ')}, extract(epoch FROM clock_timestamp()) * 1000 FROM ${this.#schema}.node n WHERE n.name = $1`;
    return { name: 'measure', text, values: [name] };
  }

  #commitText(parts: readonly Part[]): string {
    const condition = 'name = $2 AND fence = $3 AND instance = $4 AND seq = $5';
    const ctes = [
      `me AS (UPDATE ${this.#schema}.node SET seq = $1::bigint, seen = now() WHERE ${condition} RETURNING 1)`,
    ];
    let deleted = '0';
    let next = 6;
    for (const { kind, family } of parts) {
      const table = this.#table(family);
      if (kind === 'put' || kind === 'insert') {
        const given = `unnest($${next++}::bytea[], $${next++}::bytea[]) AS g(key, value)`;
        const rows = `SELECT ${headOf('key')}, ${hashOf('key')}, ${tailOf('key')}, value FROM ${given} WHERE ${HELD}`;
        const insert = `INSERT INTO ${table} (key, hash, tail, value) ${rows}`;
        const replace = kind === 'put' ? ' ON CONFLICT (key, hash) DO UPDATE SET value = excluded.value' : '';
        ctes.push(`p${family} AS (${insert}${replace})`);
      } else if (kind === 'delete') {
        ctes.push(
          `d${family} AS (DELETE FROM ${table} WHERE key = ANY($${next++}::bytea[]) AND hash = '' AND ${HELD})`,
        );
      } else if (kind === 'deleteLong') {
        const same = `t.key = ${headOf('g.key')} AND t.hash = ${hashOf('g.key')}`;
        const given = `unnest($${next++}::bytea[]) AS g(key)`;
        ctes.push(`d${family} AS (DELETE FROM ${table} t USING ${given} WHERE ${same} AND ${HELD})`);
      } else {
        const first = `SELECT ctid FROM ${table} WHERE ${within(`$${next++}`, `$${next++}`)} ORDER BY key LIMIT $${next++}`;
        ctes.push(`gone AS (DELETE FROM ${table} WHERE ctid = ANY(ARRAY(${first})) AND ${HELD} RETURNING 1)`);
        deleted = '(SELECT count(*) FROM gone)';
      }
    }
    return `WITH ${ctes.join(', ')} SELECT ${deleted} FROM me`;
  }

  #table(family: Family): string {
    return `${this.#schema}.${quoted(familyNames[family] ?? '')}`;
  }

  #text(name: string, make: () => string): string {
    let text = this.#texts.get(name);
    if (text === undefined) {
      text = make();
      this.#texts.set(name, text);
    }
    return text;
  }
}

const LETTERS = { put: 'p', insert: 'i', delete: 'd', deleteLong: 'l', deleteRange: 'r' } as const;

/**
 * Bytes of a key in the index of a table, which takes at most 2,704 in an entry. Of a longer key the rest is in `tail`, and
 * `hash` tells those with the same beginning apart. Both are empty otherwise. Keys are in the order of `key` and `tail`.
 */
const KEY_BYTES = 2_600;
const headOf = (key: string): string => `substr(${key}, 1, ${KEY_BYTES})`;
const tailOf = (key: string): string => `substr(${key}, ${KEY_BYTES + 1})`;
const hashOf = (key: string): string => `CASE WHEN octet_length(${key}) > ${KEY_BYTES} THEN sha256(${key}) ELSE '' END`;

/** Whether a row is from the one key on, and before the other. The index finds it by `key` alone. */
const within = (gte: string, lt: string): string =>
  `key >= ${headOf(`${gte}::bytea`)} AND key <= ${headOf(`${lt}::bytea`)} ` +
  `AND (key, tail) >= (${headOf(`${gte}::bytea`)}, ${tailOf(`${gte}::bytea`)}) ` +
  `AND (key, tail) < (${headOf(`${lt}::bytea`)}, ${tailOf(`${lt}::bytea`)})`;

/** When a node was last heard, in µs since 1970. */
export const SEEN = '(extract(epoch FROM seen) * 1000000)::bigint';

const HELD = 'EXISTS (SELECT FROM me)';
const NODE = 'n.fence, n.instance, n.seq, n.began';

const EMPTY = new Uint8Array(0);

/** Keys are latin1 strings. */
const boundsOf = ({ gte, lt }: KeyRange): [Buffer, Buffer] => [Buffer.from(gte, 'latin1'), Buffer.from(lt, 'latin1')];

const limitOf = (limit: number): number => Math.min(limit, Number.MAX_SAFE_INTEGER);

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** Type of `bytea` in PostgreSQL's catalog. */
const BYTEA = 17;
const HEADER_BYTES = 20;

/**
 * A `bytea[]` in the binary form of the protocol. Drivers send arrays as text, in which each byte has two digits: 500 rows of
 * 1,000 bytes take 27 ms so, and 8 ms in this form.
 */
function byteArray(items: readonly Uint8Array[]): Buffer {
  const bytes = items.reduce((sum, { byteLength }) => sum + 4 + byteLength, HEADER_BYTES);
  const array = Buffer.allocUnsafe(bytes);
  array.writeInt32BE(items.length === 0 ? 0 : 1, 0); // dimensions
  array.writeInt32BE(0, 4); // no nulls
  array.writeInt32BE(BYTEA, 8);
  if (items.length === 0) return array.subarray(0, 12);
  array.writeInt32BE(items.length, 12);
  array.writeInt32BE(1, 16); // the first index
  let at = HEADER_BYTES;
  for (const item of items) {
    array.writeInt32BE(item.byteLength, at);
    array.set(item, at + 4);
    at += 4 + item.byteLength;
  }
  return array;
}
