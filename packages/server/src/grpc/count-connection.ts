import type { Origin } from '../calls/raw-service.ts';
import type { Connections } from './connections/connections.ts';

/** Counts the connection of a call for its caller's principal. Throws a `Refusal` QUOTA_EXCEEDED. */
export type CountConnection = (origin: Origin, connection: string) => void;

/** Counts connections while they are open: a caller may be identified after its connection was closed. */
export function countOpen(connections: Pick<Connections, 'isOpen'>): CountConnection {
  return ({ forwarded, access }, connection) => {
    // The connection of a router serves many principals. The router has proved that it is one.
    if (!forwarded && connections.isOpen(connection)) access.usage?.connect(connection);
  };
}
