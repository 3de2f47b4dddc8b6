import type { History, HistoryEvent } from '@taskmaster/cli/testing/history';
import type { PauseOperations } from '@taskmaster/engine/domain';
import type { SeededRandom } from '@taskmaster/engine/testing';
import type { SimCluster } from '@taskmaster/node/testing';
import { encodeToBuffer, PauseQueuesRequest, PauseQueuesResponse, ResumeQueuesRequest } from '@taskmaster/proto';
import { GROUPS } from '../calls/workload.ts';
import { type InForce, isAmong, OperatorCalls, type OperatorCallsDeps } from './operator-calls.ts';

const LONGEST_REST_MS = 600;
const LONGEST_PAUSE_MS = 1_500;

export interface PausedQueuesDeps extends OperatorCallsDeps {
  readonly cluster: SimCluster;
  readonly history: History;
  readonly random: SeededRandom;
}

/** Somebody who pauses and resumes queues during the faults. Meanwhile no task of them is leased. */
export class PausedQueues {
  readonly #deps: PausedQueuesDeps;
  readonly #calls: OperatorCalls;
  readonly #inForce: InForce[] = [];
  readonly #acting: Promise<void>;
  #stopping = false;
  #paused = 0;

  constructor(deps: PausedQueuesDeps) {
    this.#deps = deps;
    this.#calls = new OperatorCalls(deps);
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
      await this.#calls.again('ResumeQueues', encodeToBuffer(ResumeQueuesRequest, { queues }));
    }
  }

  /** False: it is not known whether the queues are paused. */
  async #pause(queues: string): Promise<boolean> {
    const request = { queues, reason: 'a while', durationMs: 0, untilUnixMs: 0 };
    const reply = await this.#calls.once('PauseQueues', encodeToBuffer(PauseQueuesRequest, request));
    return reply !== undefined && PauseQueuesResponse.decode(reply).pause !== undefined;
  }
}
