import type { Refusal } from '@taskmaster/engine/domain';
import type { GroupRight, Right } from '@taskmaster/proto';
import type { CredentialKind } from './credential.ts';
import type { PrincipalUsage } from './principal-usage.ts';

/**
 * What a caller may do. It looks at the current rules at each question, so that a revoked credential is refused on open
 * connections, too.
 */
export interface CallerAccess {
  /** Name of the principal. Empty: the caller has no valid credential, or no rules are configured. */
  readonly principal: string;
  /** True if nothing is ever refused, because no rules are configured. Callers may then skip work for a question. */
  readonly isUnlimited: boolean;
  /** What the principal uses of its quotas. Undefined: it has none. */
  readonly usage: PrincipalUsage | undefined;
  readonly credential: CredentialKind;
  /** When the credential expires, in ms since 1970. Infinity: never. */
  readonly expiresAt: number;
  /** Throws a `Refusal` UNAUTHENTICATED unless the credential is valid now. */
  requireIdentity(): void;
  /** Throws a `Refusal` UNAUTHENTICATED or PERMISSION_DENIED unless the caller has the right on this group now. */
  require(right: GroupRight, group: string): void;
  /** The same for rights about the whole cluster. */
  requireCluster(right: Exclude<Right, GroupRight>): void;
  /** Whether the caller has the right on this group. Throws a `Refusal` UNAUTHENTICATED if its credential is not valid. */
  allows(right: GroupRight, group: string): boolean;
}

/** The principal of calls that a node or a proxy makes for itself. No file can name it, and only a sealed header proves it. */
export const CLUSTER_ITSELF = '(cluster)';

/** For callers in the same process, and for programs without rules. */
export const unlimitedAccess: CallerAccess = {
  principal: '',
  isUnlimited: true,
  usage: undefined,
  credential: 'none',
  expiresAt: Number.POSITIVE_INFINITY,
  requireIdentity() {},
  require() {},
  requireCluster() {},
  allows: () => true,
};

/** For calls that a node or a proxy makes for itself: to give tasks back, or to read figures for several callers. */
export const clusterAccess: CallerAccess = { ...unlimitedAccess, principal: CLUSTER_ITSELF };

/** For a caller whose every call is refused for one reason. */
export function refusedAccess(refusal: Refusal): CallerAccess {
  const refuse = (): never => {
    throw refusal;
  };
  return {
    principal: '',
    isUnlimited: false,
    usage: undefined,
    credential: 'none',
    expiresAt: Number.POSITIVE_INFINITY,
    requireIdentity: refuse,
    require: refuse,
    requireCluster: refuse,
    allows: refuse,
  };
}
