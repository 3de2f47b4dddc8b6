import type { HistoryEvent } from '@taskmaster/cli/testing/history';
import { queuesOf } from './explain-update.ts';
import { touching } from './rules.ts';
import { patternsOf, type World } from './world.ts';

/** Stands for the earliest instant of the next change, which every event may raise. */
export const TIME = 'time';

/** What the steps of an event depend on in a world: the names of queues, and of what is beside them. */
export function readBy(event: HistoryEvent, world: World): readonly string[] {
  const { call } = event;
  const written = writtenBy(event, world);
  const rules =
    call.kind === 'lease'
      ? call.queues.flatMap(patternsOf).flatMap((of) => [pauseOf(of), limitOf(of), limitOf(of, '*')])
      : [];
  return world.time > event.calledAt ? [TIME, ...rules, ...written] : [...rules, ...written];
}

/** What the steps of an event may change. A read of a queue changes its tasks that are due. */
export function writtenBy(event: HistoryEvent, world: World): readonly string[] {
  const { call } = event;
  if (call.kind === 'pause') return [pauseOf(call.queues)];
  if (call.kind === 'limit') return [limitOf(call.queues, call.keys)];
  const queues = queuesOfCall(event, world);
  const beside = call.kind === 'update' && call.requestId !== undefined ? [`request ${call.requestId}`] : [];
  return [...beside, ...queues, ...touching(world, queues, event.endedAt)];
}

const pauseOf = (pattern: string): string => `pause of ${pattern}`;
const limitOf = (pattern: string, keys = ''): string => `limit of ${pattern} ${keys}`;

function queuesOfCall({ call }: HistoryEvent, world: World): readonly string[] {
  switch (call.kind) {
    case 'update':
      return queuesOf(world, call);
    case 'lease':
      return world.withSharing(call.queues);
    case 'stats':
      return call.queues;
    case 'list':
      return world.queueNames;
    case 'pause':
    case 'limit':
      return [];
    case 'get':
    case 'peek':
    case 'ends':
    case 'delete':
    case 'reset':
      return [call.queue];
    default:
      return call satisfies never;
  }
}
