import { Refusal } from '@taskmaster/engine/domain';
import { groupRights, type Right, rights } from '@taskmaster/proto';
import type { Access } from '../access/access.ts';
import type { CallerAccess } from '../access/caller-access.ts';
import { toWireError } from '../calls/wire-errors.ts';
import { rpcErrorBody } from './http-error.ts';
import { jsonReply, type Reply } from './reply.ts';

/** What a page shows of the server that it is from. */
export interface ServerFacts {
  readonly role: 'node' | 'proxy';
  /** Empty: it has none. */
  readonly name: string;
  readonly version: string;
  /** Id of the cluster. Empty: unknown. */
  readonly cluster: string;
  /** `host:port`. Empty: gRPC does not listen yet. */
  readonly grpcAddress: string;
  readonly uptimeMs: number;
  /** As in `/readyz`. */
  readonly health: string;
  /** The state as a sentence for people. */
  readonly healthMessage: string;
}

const clusterRights: readonly Right[] = rights.filter((right) => !(groupRights as readonly Right[]).includes(right));

/**
 * `GET /api/me`: who the caller is, and what it may do. It needs no credential, so that a page learns that it needs one. Then it
 * says nothing about the server.
 */
export function meApi(
  access: Access | undefined,
  caller: CallerAccess,
  address: string,
  facts: () => ServerFacts,
): Reply {
  const refusal = refusalOf(caller);
  const { principal, credential, expiresAt } = caller;
  const own = refusal === undefined && access !== undefined ? access.table.named(principal) : undefined;
  const everything = access === undefined && refusal === undefined;
  return jsonReply({
    needsToken: access !== undefined,
    identified: refusal === undefined,
    ...(refusal && { refusal: rpcErrorBody(toWireError(refusal)) }),
    principal,
    credential,
    expiresAtMs: Number.isFinite(expiresAt) ? expiresAt : 0,
    everything,
    clusterRights: clusterRights.filter((right) => everything || own?.has(right, undefined) === true),
    grants: (own?.grants ?? []).flatMap(({ groups, allow }) =>
      groups === undefined ? [] : [{ groups, rights: allow }],
    ),
    address,
    ...(refusal === undefined && { server: facts() }),
  });
}

function refusalOf(caller: CallerAccess): Refusal | undefined {
  try {
    caller.requireIdentity();
    return undefined;
  } catch (thrown) {
    if (thrown instanceof Refusal) return thrown;
    throw thrown;
  }
}
