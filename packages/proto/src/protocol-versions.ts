/** Versions of the protocol between members that a release speaks. */
export interface ProtocolRange {
  readonly min: number;
  readonly max: number;
}

/**
 * The versions that this release speaks. Raise `max` for a change of peer.proto or of gossip that earlier releases may misread,
 * and go on speaking the version before: members are upgraded one by one.
 */
export const PROTOCOL: ProtocolRange = { min: 1, max: 1 };

/** Whether two members have a version in common. */
export const rangesMeet = (a: ProtocolRange, b: ProtocolRange): boolean => a.min <= b.max && b.min <= a.max;
