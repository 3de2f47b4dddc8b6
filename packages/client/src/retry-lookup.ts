import type { ClientContext } from './context.ts';
import type { LeasedTask } from './leased-task.ts';

interface Question {
  readonly task: LeasedTask<unknown>;
  readonly answer: (hasPolicy: boolean) => void;
}

/** PIDs in one request; the protocol allows 1,000. */
const BATCH = 500;

/**
 * Finds out whether failed tasks have a retry policy of their own, which a lease does not tell. Failures of one turn are
 * looked up together.
 */
export class RetryLookup {
  readonly #context: ClientContext;
  #questions: Question[] = [];

  constructor(context: ClientContext) {
    this.#context = context;
  }

  /** Never rejects: a task that cannot be looked up counts as one without a policy. */
  hasPolicy(task: LeasedTask<unknown>): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#questions.push({ task, answer: resolve }) === 1) setImmediate(() => this.#ask());
    });
  }

  #ask(): void {
    const byQueue = Map.groupBy(this.#questions, ({ task }) => task.queue);
    this.#questions = [];
    for (const [queue, questions] of byQueue) {
      for (let at = 0; at < questions.length; at += BATCH) void this.#askFor(queue, questions.slice(at, at + BATCH));
    }
  }

  async #askFor(queue: string, questions: readonly Question[]): Promise<void> {
    const { caller } = this.#context;
    const request = { queue, pids: questions.map(({ task }) => task.pid), includeData: false };
    let found: readonly (object | undefined)[] = [];
    try {
      const { tasks } = await caller.call('getTasks', 'harmless', {}, (attempt) =>
        caller.transport.getTasks(request, attempt),
      );
      found = tasks.map(({ retry }) => retry);
    } catch {
      found = []; // The node cannot tell now; the release that follows says what is wrong.
    }
    questions.forEach(({ answer }, at) => {
      answer(found[at] !== undefined);
    });
  }
}
