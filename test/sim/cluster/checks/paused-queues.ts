import type { History, HistoryEvent } from '@taskmaster/cli/testing/history';
import { namePattern, type PauseOperations } from '@taskmaster/engine/domain';
import type { SeededRandom } from '@taskmaster/engine/testing';
import type { SimCluster } from '@taskmaster/node/testing';
import {
  encodeToBuffer,
  PauseQueuesRequest,
  PauseQueuesResponse,
  parseQueueName,
  ResumeQueuesRequest,
} from '@taskmaster/proto';
import { LostError, RefusedError } from '@taskmaster/proxy';
import type { Way } from '../calls/client.ts';
import { GROUPS } from '../calls/workload.ts';

const LONGEST_REST_MS = 600;
const LONGEST_PAUSE_MS = 1_500;
/** Enough for about five seconds of faults. */
const ATTEMPTS = 14;

/** A pause that was in force between these places of the history. */
interface InForce {
  readonly queues: string;
  readonly from: number;
  readonly to: number;
}

export interface PausedQueuesDeps {
  readonly cluster: SimCluster;
  readonly history: History;
  readonly random: SeededRandom;
  readonly sleep: (ms: number) => Promise<void>;
  /** Called for each attempt. */
  readonly way: () => Way;
}

/** Somebody who pauses and resumes queues during the faults. Meanwhile no task of them is leased. */
export class PausedQueues {
  readonly #deps: PausedQueuesDeps;
  readonly #inForce: InForce[] = [];
  readonly #acting: Promise<void>;
  #stopping = false;
  #paused = 0;

  constructor(deps: PausedQueuesDeps) {
    this.#deps = deps;
    this.#acting = this.#act();
    // `stop` reports its rejection.
    this.#acting.catch(() => {});
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#acting;
  }

  /** Ends all pauses in a settled cluster: a pause whose answer was lost may have come after its end. */
  async endAll(): Promise<void> {
    const { cluster } = this.#deps;
    for (const group of GROUPS) {
      const pauses: PauseOperations | undefined = cluster.holderOf(group)?.h.engine.pauses;
      if (pauses === undefined) continue;
      for (const { pattern } of await cluster.run(pauses.list(group))) {
        await cluster.run(pauses.resume({ group, name: pattern }));
      }
    }
  }

  /** Leases of paused queues, among the calls about groups that were not lost. */
  violations(events: readonly HistoryEvent[]): string[] {
    return events.flatMap(({ id, outcome, calledSeq, endedSeq }) => {
      if (outcome.kind !== 'leased') return [];
      const during = this.#inForce.filter(({ from, to }) => from <= calledSeq && endedSeq < to);
      const wrong = outcome.tasks.filter(({ queue }) => during.some(({ queues }) => isAmong(queue, queues)));
      return wrong.map(({ queue, pid }) => `(j) #${id} leased ${pid} of ${queue}, which was paused`);
    });
  }

  async #act(): Promise<void> {
    const { history, random, sleep } = this.#deps;
    while (!this.#stopping) {
      await sleep(random.int(LONGEST_REST_MS));
      // Each pause has its own pattern: a late attempt to end one does not end a later one.
      const stars = '*'.repeat(++this.#paused);
      const queues = `${random.pick(GROUPS)}#${random.chance(0.5) ? '' : 'i'}${stars}`;
      const isPaused = await this.#pause(queues);
      const from = history.seq;
      await sleep(random.int(LONGEST_PAUSE_MS));
      if (isPaused) this.#inForce.push({ queues, from, to: history.seq });
      await this.#resume(queues);
    }
  }

  /** False: it is not known whether the queues are paused. */
  async #pause(queues: string): Promise<boolean> {
    const request = { queues, reason: 'a while', durationMs: 0, untilUnixMs: 0 };
    const reply = await this.#send('PauseQueues', encodeToBuffer(PauseQueuesRequest, request));
    return reply !== undefined && PauseQueuesResponse.decode(reply).pause !== undefined;
  }

  async #resume(queues: string): Promise<void> {
    const request = encodeToBuffer(ResumeQueuesRequest, { queues });
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      if ((await this.#send('ResumeQueues', request)) !== undefined) return;
      await this.#deps.sleep(Math.min(400, 10 * 2 ** attempt));
    }
  }

  async #send(method: string, request: Uint8Array): Promise<Uint8Array | undefined> {
    try {
      return await this.#deps.way()(method, request);
    } catch (error) {
      if (error instanceof RefusedError || error instanceof LostError) return undefined;
      throw error;
    }
  }
}

function isAmong(queue: string, queues: string): boolean {
  const { group, name } = parseQueueName(queue);
  const pattern = parseQueueName(queues);
  return group === pattern.group && namePattern(pattern.name)(name);
}
