import { Refusal } from '@taskmaster/engine/domain';
import { type MemberRelease, PROTOCOL, rangesMeet } from '@taskmaster/proto';

/** The release that a program reports to other members. `version`: version of the program. */
export const releaseOf = (version: string): MemberRelease => ({
  version,
  protocolMin: PROTOCOL.min,
  protocolMax: PROTOCOL.max,
});

/** Releases before 0.1.0 tell nothing. */
const UNTOLD: MemberRelease = { version: 'before 0.1.0', protocolMin: 1, protocolMax: 1 };

/** Throws a Refusal with INCOMPATIBLE_RELEASE if two releases speak no common version of the protocol between members. */
export function assertCompatible(own: MemberRelease, other: MemberRelease = UNTOLD): void {
  if (rangesMeet(rangeOf(own), rangeOf(other))) return;
  throw new Refusal(
    'INCOMPATIBLE_RELEASE',
    `release ${other.version} speaks ${shown(other)} of the protocol between members, release ${own.version} speaks ${shown(own)}: ` +
      'they do not work together. Upgrade in steps whose releases have a version in common',
  );
}

const rangeOf = ({ protocolMin: min, protocolMax: max }: MemberRelease) => ({ min, max });

const shown = ({ protocolMin, protocolMax }: MemberRelease): string =>
  protocolMin === protocolMax ? `version ${protocolMin}` : `versions ${protocolMin} to ${protocolMax}`;
