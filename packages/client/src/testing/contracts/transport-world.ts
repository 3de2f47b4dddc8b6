import { methods, type TaskState } from '@taskmaster/proto';
import type { Transport } from '../../transport/transport.ts';
import { bytes, get } from './transport-requests.ts';

/** A transport to an empty engine. */
export interface TransportWorld extends AsyncDisposable {
  readonly transport: Transport;
  /** From now on updates arrive but get no answer. */
  stall(): void;
  /** Advances the time until the promise settles. */
  settle<T>(promise: Promise<T>): Promise<T>;
}

/** The states of tasks in the queue of the requests. */
export async function statesOf({ transport }: TransportWorld, ...pids: string[]): Promise<TaskState[]> {
  const { tasks } = await transport.unary(methods.getTasks, { ...get('', false), pids: pids.map(bytes) });
  return tasks.map(({ state }) => state);
}
