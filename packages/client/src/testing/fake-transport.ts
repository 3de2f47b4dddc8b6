import type { LeaseTasksRequest, LeaseTasksResponse, UpdateTasksRequest, UpdateTasksResponse } from '@taskmaster/proto';
import type { Timing } from '../transport/timing.ts';
import type { Reachable, Transport, TransportCallOptions } from '../transport/transport.ts';
import { makeError, type TaskMasterError } from '../values/errors.ts';
import { FakeEngine } from './fake-engine.ts';

/**
 * What becomes of one attempt of a call: it fails with this error, before or after it took effect, or without having come
 * yet: then it is among the `stragglers`.
 */
export interface Fault {
  readonly when: 'before' | 'after' | 'late';
  readonly error: TaskMasterError;
}

/** A fake engine in this thread, with faults that a test lines up. */
export class FakeTransport implements Transport {
  readonly engine: FakeEngine;
  readonly reachableFrom: Reachable | undefined = undefined;
  /** One for each coming call of that name, in order; undefined: no fault. */
  readonly faults: {
    updateTasks: (Fault | undefined)[];
    leaseTasks: (Fault | undefined)[];
    getTasks: (Fault | undefined)[];
  } = { updateTasks: [], leaseTasks: [], getTasks: [] };
  /** Options of every update attempt. */
  readonly updateOptions: TransportCallOptions[] = [];
  /** Attempts that failed and are still on their way; calling one delivers it. */
  readonly stragglers: (() => unknown)[] = [];
  closed = false;
  /** Calls reach nobody, and are never answered. */
  silent = false;

  constructor(timing: Timing) {
    this.engine = new FakeEngine(timing);
  }

  updateTasks(request: UpdateTasksRequest, options: TransportCallOptions = {}): Promise<UpdateTasksResponse> {
    this.updateOptions.push(options);
    return this.#attempt('updateTasks', () => this.engine.update(request));
  }

  leaseTasks(request: LeaseTasksRequest, options: TransportCallOptions = {}): Promise<LeaseTasksResponse> {
    return this.#attempt('leaseTasks', () => this.engine.lease(request, options.signal));
  }

  listQueues: Transport['listQueues'] = async ({ pageToken, limit }) => {
    const { queues } = this.engine.stats({ queues: [], filter: undefined });
    const from = Number(pageToken);
    const to = from + (limit === 0 ? queues.length : limit);
    return { queues: queues.slice(from, to), nextPageToken: to < queues.length ? String(to) : '', unreachable: [] };
  };

  getQueueStats: Transport['getQueueStats'] = async (request) => this.engine.stats(request);
  peekTasks: Transport['peekTasks'] = async (request) => this.engine.peek(request);
  getTasks: Transport['getTasks'] = (request) => this.#attempt('getTasks', () => this.engine.get(request));
  deleteQueue: Transport['deleteQueue'] = async ({ queue }) => ({ deletedTasks: this.engine.deleteQueue(queue) });
  resetLeases: Transport['resetLeases'] = async ({ queue }) => ({ resetTasks: this.engine.resetLeases(queue) });

  async close(): Promise<void> {
    this.closed = true;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #attempt<Reply>(name: keyof FakeTransport['faults'], act: () => Reply | Promise<Reply>): Promise<Reply> {
    if (this.silent) return new Promise(() => {});
    const fault = this.faults[name].shift();
    if (fault?.when === 'late') this.stragglers.push(act);
    if (fault !== undefined && fault.when !== 'after') throw fault.error;
    const reply = await act();
    if (fault !== undefined) throw fault.error;
    return reply;
  }
}

/** The connection broke: whether the call took effect is unknown. */
export function connectionLost(): TaskMasterError {
  return makeError('connection lost', { reason: 'UNAVAILABLE', code: 14, retryable: true, maybeApplied: true });
}

/** The node refuses for now, and changes nothing. */
export function overloaded(retryDelayMs?: number): TaskMasterError {
  return makeError('too much to do', { reason: 'OVERLOADED', retryDelayMs });
}
