import {
  BackupPartitionRequest,
  DeleteQueueRequest,
  DeleteQueueSettingsRequest,
  DeleteScheduleRequest,
  DrainMemberRequest,
  PauseScheduleRequest,
  PutQueueSettingsRequest,
  PutScheduleRequest,
  type Reason,
  RemoveMemberRequest,
  ResetLeasesRequest,
  SubscribeRequest,
  TriggerScheduleRequest,
  UnsubscribeRequest,
} from '@taskmaster/proto';
import type { Audit, AuditEvent } from '../ports/audit.ts';

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

type Facts = Pick<AuditEvent, 'target' | 'details'>;

/** The methods that manage a cluster and its data, and what a request is about. Undefined: it manages nothing. */
const management: Readonly<Record<string, (request: Uint8Array) => Facts | undefined>> = {
  DrainMember: (bytes) => ({ target: DrainMemberRequest.decode(bytes).name }),
  RemoveMember: (bytes) => {
    const { name, also, acceptLoss } = RemoveMemberRequest.decode(bytes);
    return { target: [name, ...also].join(', '), details: { acceptLoss } };
  },
  DeleteQueue: (bytes) => ({ target: DeleteQueueRequest.decode(bytes).queue }),
  PutQueueSettings: (bytes) => ({ target: PutQueueSettingsRequest.decode(bytes).queues }),
  DeleteQueueSettings: (bytes) => ({ target: DeleteQueueSettingsRequest.decode(bytes).queues }),
  ResetLeases: (bytes) => ({ target: ResetLeasesRequest.decode(bytes).queue }),
  PutSchedule: (bytes) => ({ target: PutScheduleRequest.decode(bytes).schedule }),
  DeleteSchedule: (bytes) => ({ target: DeleteScheduleRequest.decode(bytes).schedule }),
  PauseSchedule: (bytes) => {
    const { schedule, paused } = PauseScheduleRequest.decode(bytes);
    return { target: schedule, details: { paused } };
  },
  TriggerSchedule: (bytes) => ({ target: TriggerScheduleRequest.decode(bytes).schedule }),
  // One with a time to live is renewed all the time.
  Subscribe: (bytes) => {
    const { topic, queue, ttlMs } = SubscribeRequest.decode(bytes);
    return ttlMs === 0 ? { target: topic, details: { queue } } : undefined;
  },
  Unsubscribe: (bytes) => {
    const { topic, queue } = UnsubscribeRequest.decode(bytes);
    return { target: topic, details: { queue } };
  },
  // A backup has a call for each partition. Together they are one line or two.
  BackupPartition: (bytes) => {
    BackupPartitionRequest.decode(bytes);
    return { target: '' };
  },
};

/** Refusals for want of a credential or a right. */
const REFUSALS: ReadonlySet<string> = new Set(['UNAUTHENTICATED', 'PERMISSION_DENIED', 'WRONG_KEY']);

/** Records a call if it manages the cluster or its data, or was refused for want of rights. */
export function auditCall(audit: Audit, call: EndedCall, reason: Reason | undefined): void {
  const factsOf = management[call.method];
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

function readFacts(factsOf: (request: Uint8Array) => Facts | undefined, request: Uint8Array): Facts | undefined {
  try {
    return factsOf(request);
  } catch {
    // It is not a message, and was refused for that.
    return { target: '' };
  }
}
