import type { MemberRecord, Members } from '@taskmaster/server/cluster-view';
import type { Audit } from '@taskmaster/server/ports';

/** Records every change of the membership that this node learns of. */
export class MemberAudit {
  readonly #audit: Audit;
  /** Members as they were at the last look. */
  readonly #known: Map<string, MemberRecord>;

  /** `known`: the members before the start. */
  constructor(audit: Audit, known: Members) {
    this.#audit = audit;
    this.#known = new Map(known);
  }

  /** Call this after every change of the members. */
  look(members: Members): void {
    for (const record of members.values()) {
      const before = this.#known.get(record.nodeId);
      if (before === record) continue;
      this.#known.set(record.nodeId, record);
      if (before?.state === record.state) continue;
      const { name, nodeId, state, removedBy, rpcAddress } = record;
      this.#audit.record({
        kind: 'membership',
        action: removedBy === '' ? state : 'removed',
        target: name,
        result: 'ok',
        details: { nodeId, rpcAddress, ...(removedBy !== '' && { removedBy }) },
      });
    }
  }
}
