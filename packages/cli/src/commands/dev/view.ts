import type { QueueEvent } from '@taskmaster/client';
import type { Row } from './board.ts';

/** What a view says of the node. */
export interface About {
  /** `host:port` of gRPC. */
  readonly address: string;
  /** Where the data is, in words. */
  readonly data: string;
  /** URL of the console. Undefined: unknown. */
  readonly console: string | undefined;
}

/** Shows what happens. */
export interface View {
  /** `row`: of its task. Undefined: the event is not about one task. */
  event(event: QueueEvent, row: Row | undefined): Promise<void>;
  /** How many tasks there are now. */
  totals(waiting: number, running: number): void;
  /** Something that is not an event of the queues. Undefined: it is over. */
  notice(text: string | undefined): void;
}
