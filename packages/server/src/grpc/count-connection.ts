import type { Origin } from '../service/raw-service.ts';

/** Counts the connection for the caller's principal. Throws a `Refusal` QUOTA_EXCEEDED. */
export function countConnection({ routed, access }: Origin, connection: string): void {
  // The connection of a router serves many principals.
  if (!routed) access.usage?.connect(connection);
}
