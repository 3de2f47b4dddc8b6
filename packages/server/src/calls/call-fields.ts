import { pidText } from '@taskmaster/proto';

/** What lines of the log say of a call that has failed, to find its trace, its update and its tasks. */
export interface CallFields {
  /** Name of the method. */
  readonly call: string;
  readonly trace_id?: string;
  /** The span of the caller. */
  readonly span_id?: string;
  /** In hexadecimal digits. */
  readonly request_id?: string;
  /** Of the first item. */
  readonly queue?: string;
  readonly pid?: string;
}

/** What is known of an update. A router keeps only a part of it. */
export interface KnownUpdate {
  readonly traceparent?: string | undefined;
  readonly requestId: Uint8Array;
  readonly enqueue?: readonly (KnownItem & { readonly topic: string })[];
  readonly dequeue?: readonly KnownItem[];
  readonly renew?: readonly KnownItem[];
  readonly release?: readonly KnownItem[];
}

interface KnownItem {
  readonly queue: string;
  readonly pid: Uint8Array;
}

/** W3C Trace Context: version, trace, span, flags. A zero trace or span is none. */
const TRACEPARENT = /^[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}$/;

/** Of any call. A text of the caller that is no `traceparent` is left out. */
export function callFields(call: string, traceparent: string | undefined): CallFields {
  const [, trace_id, span_id] = TRACEPARENT.exec(traceparent ?? '') ?? [];
  return trace_id === undefined || span_id === undefined ? { call } : { call, trace_id, span_id };
}

export function updateFields(call: string, update: KnownUpdate): CallFields {
  const { traceparent, requestId, enqueue, dequeue, release, renew } = update;
  const [added] = enqueue ?? [];
  const item = added ?? dequeue?.[0] ?? release?.[0] ?? renew?.[0];
  return {
    ...callFields(call, traceparent),
    ...(requestId.byteLength > 0 && { request_id: Buffer.from(requestId).toString('hex') }),
    ...(item !== undefined && { queue: added?.topic || item.queue }),
    ...(item !== undefined && item.pid.byteLength > 0 && { pid: pidText(item.pid) }),
  };
}
