/** One line of the audit log. It never has payloads, tokens or keys. */
export interface AuditEvent {
  /** management: a call that manages the cluster or its data. refusal: a call without the rights. membership: a change. */
  readonly kind: 'management' | 'refusal' | 'membership';
  /** The method, the change of a member, or `BulkRunEnded`. */
  readonly action: string;
  /** The queue, member or partition. Empty: none. */
  readonly target: string;
  /** `ok`, or the reason of the refusal. */
  readonly result: string;
  /** The caller, if it is known. */
  readonly principal?: string | undefined;
  /** `host:port` of the caller. */
  readonly address?: string | undefined;
  /** `host:port` of the proxy or node that passed the call on. */
  readonly via?: string | undefined;
  /** Further facts. */
  readonly details?: Readonly<Record<string, string | number | boolean>>;
}

/** Records who did what. */
export interface Audit {
  /** Never throws. Events that repeat in quick succession are counted, and recorded together. */
  record(event: AuditEvent): void;
}

export const noAudit: Audit = { record() {} };
