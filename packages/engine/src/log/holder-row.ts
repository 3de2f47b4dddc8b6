import { ByteReader, ByteWriter, UnreadableBytesError } from '../domain/bytes.ts';

const VERSION = 1;
const SERVING = 1;
const HANDING_OVER = 2;
const RELEASED = 3;
const writer = new ByteWriter();

/**
 * The durable fact whether a node of a cluster holds a partition. Without a row the node has never held it.
 *
 *  - serving: the node holds the partition at this epoch.
 *  - handing-over: the node holds the partition at this epoch, but `to` may have taken it. The node must not change the
 *    partition before it knows.
 *  - released: `to` has taken the partition at this epoch.
 */
export type HolderRow =
  | { readonly kind: 'serving'; readonly epoch: number }
  | { readonly kind: 'handing-over'; readonly epoch: number; readonly to: string }
  | { readonly kind: 'released'; readonly epoch: number; readonly to: string };

const CODE = { serving: SERVING, 'handing-over': HANDING_OVER, released: RELEASED } as const;

/** Encodes the row of a partition's holder. `to` is a node id. */
export function encodeHolderRow(row: HolderRow): Uint8Array {
  writer.byte(VERSION);
  writer.byte(CODE[row.kind]);
  writer.number(row.epoch);
  writer.utf8(row.kind === 'serving' ? '' : row.to);
  return Uint8Array.from(writer.view());
}

export function decodeHolderRow(bytes: Uint8Array): HolderRow {
  const from = new ByteReader(bytes);
  from.version(VERSION, 'holder row');
  const code = from.byte();
  const epoch = from.number();
  const to = from.utf8();
  switch (code) {
    case SERVING:
      return { kind: 'serving', epoch };
    case HANDING_OVER:
      return { kind: 'handing-over', epoch, to };
    case RELEASED:
      return { kind: 'released', epoch, to };
    default:
      throw new UnreadableBytesError(`unknown kind ${code} of a holder row`);
  }
}
