import { EnqueueMode, parseQueueName } from '@taskmaster/proto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Pid } from '../../domain/ids.ts';
import type { OnFailure } from '../../domain/task.ts';
import { type EngineHarness, engineHarness } from '../../testing/engine-harness.ts';

const PARENTS = 'g#parents';
const QUEUES = ['g#a', 'g#b'] as const;
/** More than a search needs to find what is over, and than parents need to hear of a deleted queue. */
const A_WHILE_MS = 2_000;
const PARENT_COUNT = 2;
const ALL_PARENTS = [0, 1];

const number = (max: number) => fc.nat({ max: max - 1 });
const step = fc.oneof(
  fc.record({
    do: fc.constant('add parent' as const),
    parent: number(PARENT_COUNT),
    signals: fc.integer({ min: 2, max: 5 }),
  }),
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('add child' as const),
      child: number(4),
      parents: fc.uniqueArray(
        fc.record({
          at: number(PARENT_COUNT),
          onFailure: fc.constantFrom<OnFailure>('fail', 'continue', 'retry', 'retry'),
        }),
        { minLength: 1, maxLength: PARENT_COUNT, selector: ({ at }) => at },
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('signal' as const), parent: number(PARENT_COUNT), id: number(3) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'complete' as const,
        'complete' as const,
        'dead-letter' as const,
        'cancel' as const,
        'remove' as const,
      ),
      child: number(4),
    }),
  },
  fc.record({ do: fc.constantFrom('put back' as const, 'discard' as const), child: number(4) }),
  fc.record({ do: fc.constant('end parent' as const), parent: number(PARENT_COUNT) }),
  fc.record({ do: fc.constant('delete queue' as const), queue: number(2) }),
  fc.record({ do: fc.constantFrom('crash' as const, 'pass' as const) }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

interface Parent {
  /** How many signals are missing. */
  left: number;
  /** Ids of signals, and children, that have counted. */
  readonly heard: Set<string>;
}

/** Flows by the contract. */
class Model {
  /** Those in their queue. */
  readonly parents = new Map<number, Parent>();
  /** Ids of signals that came before their tasks. */
  readonly early = new Map<number, Set<string>>();
  /** Those in their queues, with the policies of their parents. */
  readonly children = new Map<number, Map<number, OnFailure>>();
  readonly dead = new Map<number, Map<number, OnFailure>>();

  addParent(at: number, signals: number): void {
    const heard = this.early.get(at) ?? new Set<string>();
    this.early.delete(at);
    this.parents.set(at, { left: Math.max(0, signals - heard.size), heard });
  }

  signal(at: number, id: string): void {
    const parent = this.parents.get(at);
    if (parent === undefined) this.early.set(at, (this.early.get(at) ?? new Set()).add(id));
    else this.#count(parent, id);
  }

  /** The child tells those of its parents that wait for it. */
  end(child: number, how: 'completed' | 'failed' | 'gone', from = this.children): void {
    const parents = from.get(child) ?? new Map<number, OnFailure>();
    from.delete(child);
    const waiting = new Map([...parents].filter(([, onFailure]) => how === 'failed' && onFailure === 'retry'));
    if (how === 'failed') this.dead.set(child, waiting);
    for (const [at, onFailure] of parents) {
      const parent = this.parents.get(at);
      if (parent === undefined || waiting.has(at)) continue;
      if (how === 'completed' || onFailure === 'continue') this.#count(parent, `child ${child}`);
      else if (parent.left > 0 && !parent.heard.has(`child ${child}`)) this.parents.delete(at);
    }
  }

  #count(parent: Parent, what: string): void {
    if (parent.left === 0 || parent.heard.has(what)) return;
    parent.heard.add(what);
    parent.left--;
  }
}

const queueOf = (child: number): string => QUEUES[child % 2] ?? '';

async function play(h: EngineHarness, model: Model, one: Step): Promise<void> {
  const item = 'child' in one ? { queue: queueOf(one.child), pid: `c${one.child}` } : { queue: '', pid: '' };
  const parent = 'parent' in one ? { queue: PARENTS, pid: `p${one.parent}` } : { queue: '', pid: '' };
  const isThere = 'child' in one && model.children.has(one.child);
  const isDead = 'child' in one && model.dead.has(one.child);
  switch (one.do) {
    case 'add parent':
      if (model.parents.has(one.parent)) return;
      await h.update({ enqueue: [{ ...parent, waitFor: { signals: one.signals, collect: true } }] });
      return model.addParent(one.parent, one.signals);
    case 'add child': {
      if (isThere || isDead) return;
      const parents = one.parents.map(({ at, onFailure }) => ({ queue: PARENTS, pid: `p${at}`, onFailure }));
      await h.update({ enqueue: [{ ...item, parents }] });
      model.children.set(one.child, new Map(one.parents.map(({ at, onFailure }) => [at, onFailure])));
      return;
    }
    case 'signal':
      await h.update({
        enqueue: [{ ...parent, mode: EnqueueMode.ENQUEUE_MODE_SIGNAL, signalId: `${one.id}`, data: 'x' }],
      });
      return model.signal(one.parent, `${one.id}`);
    case 'complete':
    case 'dead-letter': {
      if (!isThere) return;
      const all = await h.clock.run(h.lease(item.queue, { max: 9 }));
      const { token } = all.find(({ pid }) => pid === item.pid) ?? {};
      const others = all
        .filter(({ pid }) => pid !== item.pid)
        .map((task) => ({ queue: item.queue, pid: task.pid, token: task.token }));
      if (one.do === 'complete') await h.update({ dequeue: [{ ...item, token }], release: others });
      else await h.update({ release: [{ ...item, token, error: 'no', deadLetter: true }, ...others] });
      return model.end(one.child, one.do === 'complete' ? 'completed' : 'failed');
    }
    case 'cancel':
    case 'remove':
      if (!isThere) return;
      await h.update({ dequeue: [one.do === 'cancel' ? { ...item, cancel: 'no' } : item] });
      return model.end(one.child, 'gone');
    case 'put back':
    case 'discard': {
      const letter = model.dead.get(one.child);
      if (letter === undefined) return;
      await h.update({ dequeue: [{ queue: `${item.queue}.dead`, pid: item.pid, requeue: one.do === 'put back' }] });
      if (one.do === 'discard') return model.end(one.child, 'gone', model.dead);
      model.dead.delete(one.child);
      model.children.set(one.child, letter);
      return;
    }
    case 'end parent':
      if (!model.parents.has(one.parent)) return;
      await h.update({ dequeue: [parent] });
      model.parents.delete(one.parent);
      return;
    case 'delete queue': {
      const queue = QUEUES[one.queue] ?? '';
      await h.clock.run(h.engine.deleteQueue(parseQueueName(queue)));
      await h.clock.advance(A_WHILE_MS);
      // In the order of their PIDs.
      for (const child of [...model.children.keys()].sort()) if (queueOf(child) === queue) model.end(child, 'gone');
      return;
    }
    case 'crash':
      return h.crash();
    case 'pass':
      return h.clock.advance(A_WHILE_MS);
  }
}

/** The parents that are in their queue, with how many signals they miss and what they have heard. */
async function parentsOf(h: EngineHarness): Promise<unknown[]> {
  const pids = ALL_PARENTS.map((at) => `p${at}` as Pid);
  const get = { queue: parseQueueName(PARENTS), pids, includeData: false, includeSignals: true };
  const views = await h.clock.run(h.engine.getTasks(get));
  return views.map(({ state, signals }) => {
    if (state === undefined) return undefined;
    const heard = signals?.kept.map(({ id, child }) => (child ? `child ${child.pid.slice(1)}` : id)) ?? [];
    return [state.visibility.kind === 'available' ? 0 : state.history?.waits?.signals, heard.toSorted()];
  });
}

test('parents hear of each end once, and of signals that came before them', async () => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }), async (steps) => {
    await using h = await engineHarness();
    const model = new Model();
    for (const one of steps) {
      await play(h, model, one);
      const expected = ALL_PARENTS.map((at) => {
        const parent = model.parents.get(at);
        return parent && [parent.left, [...parent.heard].toSorted()];
      });
      expect(await parentsOf(h)).toEqual(expected);
    }
  });
  await fc.assert(property, {
    seed: Number(process.env.FLOWS_SEED ?? 1),
    numRuns: Number(process.env.FLOWS_RUNS ?? 40),
  });
});
