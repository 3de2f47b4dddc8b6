import {
  type AuditFacts,
  type Method,
  type MethodKey,
  methodKeys,
  methods,
  type Reason,
  type ReplyOf,
  type RequestOf,
} from '@taskmaster/proto';
import type { Audit } from '../ports/audit.ts';

/** A call that has ended. */
export interface EndedCall {
  readonly method: string;
  readonly request: Uint8Array;
  /** `host:port` of the caller. */
  readonly address: string;
  /** True if a proxy or another node has passed the call on. */
  readonly forwarded: boolean;
  /** `host:port` at the other end of the connection. */
  readonly peer: string;
  readonly principal?: string | undefined;
}

/** Reads what a request is about. Undefined: it manages nothing. */
type FactsOf = (request: Uint8Array) => AuditFacts | undefined;

/** The methods that manage a cluster and its data, by name. */
const management: ReadonlyMap<string, FactsOf> = new Map(
  methodKeys.flatMap((key) => {
    const factsOf = factsOfMethod(key);
    return factsOf === undefined ? [] : [[methods[key].name, factsOf]];
  }),
);

function factsOfMethod<K extends MethodKey>(key: K): FactsOf | undefined {
  const { audit, requestDeserialize }: Method<RequestOf<K>, ReplyOf<K>> = methods[key];
  return audit && ((bytes) => audit(requestDeserialize(bytes)));
}

/** Refusals for want of a credential or a right. */
const REFUSALS: ReadonlySet<string> = new Set(['UNAUTHENTICATED', 'PERMISSION_DENIED', 'WRONG_KEY']);

/** Records a call if it manages the cluster or its data, or was refused for want of rights. */
export function auditCall(audit: Audit, call: EndedCall, reason: Reason | undefined): void {
  const factsOf = management.get(call.method);
  const facts = factsOf && readFacts(factsOf, call.request);
  const isRefused = reason !== undefined && REFUSALS.has(reason);
  if (facts === undefined && !isRefused) return;
  const { method: action, address, forwarded, peer, principal } = call;
  audit.record({
    kind: isRefused ? 'refusal' : 'management',
    action,
    ...(facts ?? { target: '' }),
    result: reason ?? 'ok',
    principal: principal || undefined,
    address,
    via: forwarded ? peer : undefined,
  });
}

function readFacts(factsOf: FactsOf, request: Uint8Array): AuditFacts | undefined {
  try {
    return factsOf(request);
  } catch {
    // It is not a message, and was refused for that.
    return { target: '' };
  }
}
