import { scanAll } from '@taskmaster/engine';
import {
  afterPrefix,
  ByteReader,
  ByteWriter,
  decodeAcceptedLoss,
  type Instant,
  type Key,
  metaKeys,
  UnreadableBytesError,
} from '@taskmaster/engine/domain';
import { type Clock, Family, type Store, WriteBatch } from '@taskmaster/engine/ports';
import type { MemberRecord, MemberState, Members } from '@taskmaster/server/cluster-view';

const VERSION = 1;
const STATES: readonly MemberState[] = ['joining', 'active', 'leaving', 'left'];
/** Gossip takes start numbers below 2^32. This leaves room for a million starts after a clock was set to a distant year. */
const LATEST_SECONDS = 2 ** 32 - 2 ** 20;
const IDENTITY = 'identity';
const MEMBER = 'member/';
const FAREWELL = 'farewell';
const writer = new ByteWriter();

/** The identity of a node. It stays the same while its data directory exists. */
export interface Identity {
  readonly clusterId: string;
  readonly nodeId: string;
  readonly name: string;
  /** Number of this start; see `nextStartNumber`. At least 1. */
  readonly startNumber: number;
}

/**
 * Number of a start that follows start `earlier`; undefined: there was none. It is larger than the numbers of all earlier
 * starts. That holds for an older copy of the directory too, because the number is at least the seconds since 1970.
 */
export const nextStartNumber = (earlier: number | undefined, clock: Clock): number =>
  Math.max((earlier ?? 0) + 1, Math.min(Math.floor(clock.wall() / 1000), LATEST_SECONDS));

const latin1 = (text: string): string => Buffer.from(text).toString('latin1');

/** Stores a node's identity and its records of all members. */
export class MemberStore {
  readonly #store: Store;
  readonly #identity: Key;
  readonly #member: string;
  readonly #farewell: Key;

  /** `name`: of this node, if nodes share the store. Each has rows of its own there. Default: the store is of this node alone. */
  constructor(store: Store, name?: string) {
    this.#store = store;
    const own = name === undefined ? '' : `of/${latin1(name)}/`;
    this.#identity = `${own}${IDENTITY}` as Key;
    this.#member = own + MEMBER;
    this.#farewell = `${own}${FAREWELL}` as Key;
  }

  /** Undefined if the node never belonged to a cluster or asked to join one. */
  async readIdentity(): Promise<Identity | undefined> {
    const [row] = await this.#store.get(Family.meta, [this.#identity]);
    if (!row) return undefined;
    const from = new ByteReader(row);
    from.version(VERSION, 'identity row');
    return { clusterId: from.utf8(), nodeId: from.utf8(), name: from.utf8(), startNumber: from.number() };
  }

  async writeIdentity({ clusterId, nodeId, name, startNumber }: Identity): Promise<void> {
    writer.byte(VERSION);
    for (const text of [clusterId, nodeId, name]) writer.utf8(text);
    writer.number(startNumber);
    const batch = new WriteBatch();
    batch.putWritten(Family.meta, this.#identity, writer);
    await this.#store.write(batch, { sync: true });
  }

  /** When an operator last accepted that this node has lost acknowledged work; undefined if that never happened. */
  async readAcceptedLoss(): Promise<Instant | undefined> {
    const [row] = await this.#store.get(Family.meta, [metaKeys.acceptedLoss]);
    return row && decodeAcceptedLoss(row);
  }

  /** Whether this node may have told other members that it has left; see `Leaving`. */
  async readFarewell(nodeId: string): Promise<boolean> {
    const [row] = await this.#store.get(Family.meta, [this.#farewell]);
    if (!row) return false;
    const from = new ByteReader(row);
    from.version(VERSION, 'farewell row');
    return from.utf8() === nodeId;
  }

  async writeFarewell(nodeId: string): Promise<void> {
    writer.byte(VERSION);
    writer.utf8(nodeId);
    const batch = new WriteBatch();
    batch.putWritten(Family.meta, this.#farewell, writer);
    await this.#store.write(batch, { sync: true });
  }

  async readMembers(): Promise<Members> {
    const members = new Map<string, MemberRecord>();
    const range = { gte: this.#member as Key, lt: afterPrefix(this.#member) };
    for await (const { value } of scanAll(this.#store, Family.meta, range)) {
      const record = decodeMember(value);
      members.set(record.nodeId, record);
    }
    return members;
  }

  async writeMembers(records: Iterable<MemberRecord>): Promise<void> {
    const batch = new WriteBatch();
    for (const record of records) {
      encodeMember(record);
      batch.putWritten(Family.meta, (this.#member + latin1(record.nodeId)) as Key, writer);
    }
    if (batch.count > 0) await this.#store.write(batch, { sync: true });
  }
}

function encodeMember({ nodeId, name, state, version, rpcAddress, gossipAddress, removedBy }: MemberRecord): void {
  writer.byte(VERSION);
  writer.byte(STATES.indexOf(state));
  writer.number(version);
  for (const text of [nodeId, name, rpcAddress, gossipAddress, removedBy]) writer.utf8(text);
}

function decodeMember(bytes: Uint8Array): MemberRecord {
  const from = new ByteReader(bytes);
  from.version(VERSION, 'member row');
  const state = STATES[from.byte()];
  if (!state) throw new UnreadableBytesError('member row of an unknown state');
  const version = from.number();
  return {
    state,
    version,
    nodeId: from.utf8(),
    name: from.utf8(),
    rpcAddress: from.utf8(),
    gossipAddress: from.utf8(),
    removedBy: from.utf8(),
  };
}
