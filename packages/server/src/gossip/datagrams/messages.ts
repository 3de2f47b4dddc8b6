import { isIPv4 } from 'node:net';
import { type MemberMeta, MetaTooLargeError } from '../../ports/membership.ts';

/** The message types of swim. */
export const MessageKind = { compound: 0, ping: 10, pingReq: 11, sync: 12, ack: 13, update: 14 } as const;
export const MemberState = { alive: 0, suspect: 1, faulty: 2 } as const;

/** A member in a message of swim. */
export interface MemberData {
  /** `IPv4:port`. */
  host: string;
  state: 0 | 1 | 2;
  incarnation: number;
  meta: PackedMeta;
}

export type GossipMessage =
  | { readonly event: 'ping' | 'ack'; readonly data: { readonly seq: number } }
  | { readonly event: 'pingreq'; readonly data: { readonly seq: number; readonly destination: string } }
  | { readonly event: 'sync' | 'update'; readonly data: MemberData };

/** A description in a message. It has no field names, which would double its size. */
export type PackedMeta = readonly [
  nodeId: string,
  name: string,
  role: 'node' | 'proxy',
  rpcAddress: string,
  httpAddress: string,
  version: string,
  stateVersion: number,
  incarnation: number,
];

/** Size limit of a description, in bytes. A datagram has room for two or more members. */
const MAX_META_BYTES = 400;

/** swim counts the changes of a member's state. One start of a member leaves room for this number of changes. */
const CHANGES_PER_START = 2 ** 20;
/** Above this number a member could not object any more. Incarnations in seconds since 1970 stay below it until 2106. */
const MAX_INCARNATION = 2 ** 52;

export const firstIncarnation = (starts: number): number => starts * CHANGES_PER_START;

/** Packs a description. Throws `MetaTooLargeError`. */
export function packMeta(meta: MemberMeta): PackedMeta {
  const { nodeId, name, role, rpcAddress, httpAddress = '', version, stateVersion, incarnation } = meta;
  const strings = [nodeId, name, role, rpcAddress, httpAddress, version];
  // Two numbers of 9 bytes, and up to 3 bytes in front of each string.
  const bytes = strings.reduce((sum, text) => sum + Buffer.byteLength(text) + 3, 20);
  if (bytes > MAX_META_BYTES) throw new MetaTooLargeError(bytes, MAX_META_BYTES);
  return [nodeId, name, role, rpcAddress, httpAddress, version, stateVersion, incarnation];
}

export function unpackMeta(packed: PackedMeta): MemberMeta {
  const [nodeId, name, role, rpcAddress, httpAddress, version, stateVersion, incarnation] = packed;
  const meta = { nodeId, name, role, rpcAddress, version, stateVersion, incarnation };
  return httpAddress === '' ? meta : { ...meta, httpAddress };
}

/** The decoder of swim. It may throw, and may return anything. */
export type Decode = (bytes: Buffer) => unknown;

/**
 * Returns the messages in the body of a datagram, or undefined if one of them is not valid. swim itself checks nothing, and an
 * invalid body would end the process.
 */
export function parseMessages(body: Buffer, decode: Decode): GossipMessage[] | undefined {
  if (body[0] !== MessageKind.compound) {
    const message = parseMessage(body, decode);
    return message && [message];
  }
  if (body.length < 3) return undefined;
  const messages: GossipMessage[] = [];
  let at = 3;
  for (let left = body.readUInt16LE(1); left > 0; left--) {
    if (at + 2 > body.length) return undefined;
    const end = at + 2 + body.readUInt16LE(at);
    if (end > body.length) return undefined;
    const message = parseMessage(body.subarray(at + 2, end), decode);
    if (!message) return undefined;
    messages.push(message);
    at = end;
  }
  return at === body.length ? messages : undefined;
}

function parseMessage(bytes: Buffer, decode: Decode): GossipMessage | undefined {
  if (bytes.length < 2) return undefined;
  const data = decodeObject(bytes.subarray(1), decode);
  if (!data) return undefined;
  const { seq, destination } = data;
  switch (bytes[0]) {
    case MessageKind.ping:
    case MessageKind.ack:
      if (!isCount(seq)) return undefined;
      return { event: bytes[0] === MessageKind.ping ? 'ping' : 'ack', data: { seq } };
    case MessageKind.pingReq:
      if (!isCount(seq) || !isHost(destination)) return undefined;
      return { event: 'pingreq', data: { seq, destination } };
    case MessageKind.sync:
    case MessageKind.update: {
      const member = parseMember(data);
      return member && { event: bytes[0] === MessageKind.sync ? 'sync' : 'update', data: member };
    }
    default:
      return undefined;
  }
}

function decodeObject(bytes: Buffer, decode: Decode): Record<string, unknown> | undefined {
  try {
    const value: unknown = decode(bytes);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined; // not a valid message
  }
}

function parseMember({ host, state, incarnation, meta }: Record<string, unknown>): MemberData | undefined {
  if (!isHost(host) || !isCount(incarnation) || incarnation > MAX_INCARNATION) return undefined;
  if (state !== MemberState.alive && state !== MemberState.suspect && state !== MemberState.faulty) return undefined;
  return isPackedMeta(meta) ? { host, state, incarnation, meta } : undefined;
}

function isPackedMeta(meta: unknown): meta is PackedMeta {
  if (!Array.isArray(meta) || meta.length !== 8) return false;
  const [nodeId, name, role, rpcAddress, httpAddress, version, stateVersion, incarnation] = meta;
  const texts = [nodeId, name, rpcAddress, httpAddress, version];
  if (!texts.every((text) => typeof text === 'string' && text.length <= MAX_META_BYTES)) return false;
  return nodeId !== '' && (role === 'node' || role === 'proxy') && isCount(stateVersion) && isCount(incarnation);
}

const isCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;

/** Whether a value is `IPv4:port`. Host names are not accepted, because each receiver would resolve them. */
export function isHost(value: unknown): value is string {
  if (typeof value !== 'string') return false;
  const [address = '', port = '', ...rest] = value.split(':');
  return rest.length === 0 && isIPv4(address) && /^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535;
}
