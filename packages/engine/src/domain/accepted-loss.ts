import { ByteReader, ByteWriter } from './bytes.ts';
import type { Instant } from './ids.ts';

const VERSION = 1;
const writer = new ByteWriter();

/** The value of `metaKeys.acceptedLoss`: when an operator last accepted the loss of acknowledged work. */
export function encodeAcceptedLoss(at: Instant): Uint8Array {
  writer.byte(VERSION);
  writer.number(at);
  return Uint8Array.from(writer.view());
}

export function decodeAcceptedLoss(bytes: Uint8Array): Instant {
  const from = new ByteReader(bytes);
  from.version(VERSION, 'accepted-loss row');
  return from.number() as Instant;
}
