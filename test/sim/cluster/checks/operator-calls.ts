import { namePattern } from '@taskmaster/engine/domain';
import { parseQueueName } from '@taskmaster/proto';
import { LostError, RefusedError } from '@taskmaster/proxy';
import type { Way } from '../calls/client.ts';

/** Enough for about five seconds of faults. */
const ATTEMPTS = 14;

export interface OperatorCallsDeps {
  readonly sleep: (ms: number) => Promise<void>;
  /** Called for each attempt. */
  readonly way: () => Way;
}

/** Calls of somebody who operates queues. */
export class OperatorCalls {
  readonly #deps: OperatorCallsDeps;

  constructor(deps: OperatorCallsDeps) {
    this.#deps = deps;
  }

  /** Undefined: it is not known whether the call took effect. */
  async once(method: string, request: Uint8Array): Promise<Uint8Array | undefined> {
    try {
      return await this.#deps.way()(method, request);
    } catch (error) {
      if (error instanceof RefusedError || error instanceof LostError) return undefined;
      throw error;
    }
  }

  /** Repeats the call until it is answered, or until it seems to be hopeless. */
  async again(method: string, request: Uint8Array): Promise<void> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      if ((await this.once(method, request)) !== undefined) return;
      await this.#deps.sleep(Math.min(400, 10 * 2 ** attempt));
    }
  }
}

/** What was in force between these places of the history, for the queues that match a pattern. */
export interface InForce {
  readonly queues: string;
  readonly from: number;
  readonly to: number;
}

export function isAmong(queue: string, queues: string): boolean {
  const { group, name } = parseQueueName(queue);
  const pattern = parseQueueName(queues);
  return group === pattern.group && namePattern(pattern.name)(name);
}
