import type { Metadata } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import { Memo } from '@taskmaster/proto';
import type { Access } from '../access/access.ts';
import { type CallerAccess, refusedAccess, unlimitedAccess } from '../access/caller-access.ts';
import { credentialOf } from '../access/credential.ts';
import { isLoopbackPeer, peerAddress } from './host-port.ts';
import { IdentitySeal } from './identity-seal.ts';
import type { Origin } from './raw-service.ts';

/**
 * If it is `1`, the node serves the call or refuses it with NOT_HOLDER, so that calls do not go round in circles. Routers set it,
 * and clients that know the holder. Alone it proves nothing about the caller.
 */
export const ROUTED_HEADER = 'taskmaster-routed';
/** The caller of a router, sealed with the key of the cluster. It counts only together with `taskmaster-routed`. */
export const IDENTITY_HEADER = 'taskmaster-identity';
const AUTHORIZATION_HEADER = 'authorization';

/** Longer addresses are not valid. */
const ADDRESS_CHARACTERS = 128;
const MOST_DIRECT = 1024;

/** The names in the client certificate of a connection. */
export type CertificateNames = (connection: string) => readonly string[];

const NO_NAMES: readonly string[] = [];

export interface OriginsOptions {
  /** Undefined: every caller may do everything. */
  readonly access?: Access | undefined;
  readonly seal?: IdentitySeal;
  readonly certificateNames?: CertificateNames;
}

/** Tells who makes a call. */
export class Origins {
  readonly #access: Access | undefined;
  readonly #seal: IdentitySeal;
  readonly #certificateNames: CertificateNames;
  /** Origins of direct callers, by peer. They are shared because ten thousand waiting calls would each keep their own. */
  readonly #direct = new Memo<string, Origin>(MOST_DIRECT);

  constructor({ access, seal = new IdentitySeal([]), certificateNames = () => NO_NAMES }: OriginsOptions = {}) {
    this.#access = access;
    this.#seal = seal;
    this.#certificateNames = certificateNames;
  }

  get access(): Access | undefined {
    return this.#access;
  }

  /**
   * The client that makes a call: the peer of the connection, or the caller of a router. A promise only if its credential is seen
   * for the first time.
   */
  of(metadata: Metadata, peer: string): Origin | Promise<Origin> {
    const routed = metadata.get(ROUTED_HEADER)[0] === '1';
    if (routed) {
      const forwarded = this.#forwarded(metadata, peer);
      if (forwarded !== undefined) return forwarded;
    }
    if (this.#access === undefined) {
      if (!routed) return this.#directOrigin(peer);
      return { address: peerAddress(peer), routed, forwarded: false, access: unlimitedAccess };
    }
    const access = this.#identify(this.#access, metadata, peer);
    const address = peerAddress(peer);
    const origin = (known: CallerAccess): Origin => ({ address, routed, forwarded: false, access: known });
    return access instanceof Promise ? access.then(origin) : origin(access);
  }

  /** The caller that a router names, if it may be believed. */
  #forwarded(metadata: Metadata, peer: string): Origin | undefined {
    const [header] = metadata.get(IDENTITY_HEADER);
    // Without keys nothing proves who sends the header. On one machine the address is believed, but it gives no rights.
    if (typeof header !== 'string' || (!this.#seal.hasKeys && !isLoopbackPeer(peer))) return undefined;
    const identity = this.#seal.read(header);
    if (identity === undefined) return undefined;
    const { address, principal, outOfTimeMs } = identity;
    const isShown = address !== '' && address.length <= ADDRESS_CHARACTERS;
    const shown = isShown ? address : peerAddress(peer);
    const origin = { address: shown, routed: true, forwarded: true };
    // An address gives no rights, so a copy of a header does no harm here.
    if (this.#access === undefined) return { ...origin, access: unlimitedAccess };
    if (!this.#seal.hasKeys) return undefined;
    if (outOfTimeMs !== undefined) {
      const refused = refusedAccess(clockSkew(this.#seal, outOfTimeMs));
      return { address: peerAddress(peer), routed: true, forwarded: false, access: refused };
    }
    return { ...origin, access: this.#access.identified(principal) };
  }

  #identify(access: Access, metadata: Metadata, peer: string): CallerAccess | Promise<CallerAccess> {
    const [header] = metadata.get(AUTHORIZATION_HEADER);
    const authorization = header === undefined ? undefined : header.toString();
    return access.identify(credentialOf(authorization, this.#certificateNames(peer)));
  }

  #directOrigin(peer: string): Origin {
    const known = this.#direct.get(peer);
    if (known !== undefined) return known;
    const origin = { address: peerAddress(peer), routed: false, forwarded: false, access: unlimitedAccess };
    return this.#direct.remember(peer, origin);
  }
}

/** Refuses the call of a forwarder whose header is out of time, and tells it how to seal the next one (I3 of the seal). */
function clockSkew(seal: IdentitySeal, aheadMs: number): Refusal {
  const seconds = Math.round(Math.abs(aheadMs) / 1000);
  const differs = Number.isNaN(aheadMs)
    ? 'sealed this call for an earlier run of this node'
    : `has a system clock that is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} this node's`;
  const message = `the node or proxy that forwards this call ${differs}: nothing has changed; set the clocks right, as with NTP`;
  return new Refusal('CLOCK_SKEW', message, { metadata: { challenge: seal.challenge() } });
}
