import type { Engine } from '@taskmaster/engine';
import type { GetCommand, PeekCommand } from '@taskmaster/engine/domain';
import type { GetTasksResponse, PeekTasksResponse } from '@taskmaster/proto';
import { REPLY_BYTES } from '@taskmaster/server/calls';
import { refuse } from '@taskmaster/server/requests';
import { taskInfo, taskInfoBytes } from './build-reply.ts';

/**
 * Answers a peek, with fewer tasks than requested if their payloads do not fit into one reply. The tasks are read without
 * payloads first, so that memory never holds more payload than the reply.
 */
export async function peek(engine: Engine, command: PeekCommand): Promise<PeekTasksResponse> {
  const { queue, includeData } = command;
  let left = REPLY_BYTES;
  const views = await engine.peekTasks({ ...command, includeData: false });
  const tooMany = views.findIndex((view) => {
    left -= taskInfoBytes(view, includeData);
    return left < 0;
  });
  const fitting = tooMany < 0 ? views : views.slice(0, tooMany);
  if (!includeData || fitting.length === 0) return { tasks: fitting.map((view) => taskInfo(view, false)) };
  const loaded = await engine.getTasks({ queue, pids: fitting.map(({ pid }) => pid), includeData });
  const there = loaded.filter(({ state }) => state !== undefined);
  return { tasks: there.map((view) => taskInfo(view, true)) };
}

/** Answers a get with all requested tasks. Refused if they do not fit into one reply. */
export async function get(engine: Engine, command: GetCommand): Promise<GetTasksResponse> {
  const { includeData, pids, keys = [] } = command;
  const isOne = pids.length + keys.length === 1;
  // A single task always fits.
  const first = await engine.getTasks({ ...command, includeData: includeData && isOne });
  const bytes = first.reduce((sum, view) => sum + taskInfoBytes(view, includeData), 0);
  if (bytes > REPLY_BYTES && !isOne) {
    refuse('TOO_MANY_ITEMS', { field: 'pids' }, `would make a reply of ${bytes} bytes: at most ${REPLY_BYTES}`, {
      value: bytes,
      limit: REPLY_BYTES,
    });
  }
  const views = includeData && !isOne ? await engine.getTasks(command) : first;
  return { tasks: views.map((view) => taskInfo(view, includeData)) };
}
