import {
  DeleteQueueRequest,
  DeleteQueueSettingsRequest,
  DeleteScheduleRequest,
  GetTasksRequest,
  ListQueueSettingsRequest,
  ListSubscriptionsRequest,
  PauseScheduleRequest,
  PeekTasksRequest,
  PutQueueSettingsRequest,
  PutScheduleRequest,
  ResetLeasesRequest,
  SubscribeRequest,
  TriggerScheduleRequest,
  UnsubscribeRequest,
} from '@taskmaster/proto';
import type { GroupRight } from '../access/rights.ts';
import { decodeRequest, type MessageType } from './parse/codec.ts';
import { type EntryBound, entryBounds } from './parse/entry-bounds.ts';
import { scheduleName } from './parse/parse-schedules.ts';
import { queueName } from './parse/queue-names.ts';
import { parseListSubscriptions } from './records/parse-topics.ts';
import { groupOfPattern, groupOfQueue } from './records/queue-settings.ts';

/** A method whose requests are about one group. */
export interface GroupMethod {
  /** The right on the group that the method needs. */
  readonly right: GroupRight;
  /** The group of an encoded request, as the service that applies the request reads it. Throws a `Refusal` if it is not valid. */
  readonly groupIn: (request: Buffer) => string;
}

function method<Q>(
  right: GroupRight,
  type: MessageType<Q>,
  groupOf: (request: Q) => string,
  bounds: readonly EntryBound[] = [],
): GroupMethod {
  return { right, groupIn: (bytes) => groupOf(decodeRequest(type, bytes, bounds)) };
}

const byQueue = ({ queue }: { readonly queue: string }): string => queueName(queue, { field: 'queue' }).group;
const bySchedule = ({ schedule }: { readonly schedule: string }): string => scheduleName(schedule).group;
const byTopic = ({ topic }: { readonly topic: string }): string => queueName(topic, { field: 'topic' }).group;

/** The methods about one group, for the code that checks or forwards requests before they are applied. */
export const groupMethods = {
  PeekTasks: method('read', PeekTasksRequest, byQueue),
  GetTasks: method('read', GetTasksRequest, byQueue, entryBounds.get),
  DeleteQueue: method('manage-queues', DeleteQueueRequest, byQueue),
  ResetLeases: method('manage-queues', ResetLeasesRequest, byQueue),
  PutQueueSettings: method('manage-queues', PutQueueSettingsRequest, groupOfPattern),
  DeleteQueueSettings: method('manage-queues', DeleteQueueSettingsRequest, groupOfPattern),
  ListQueueSettings: method('read', ListQueueSettingsRequest, groupOfQueue),
  PutSchedule: method('enqueue', PutScheduleRequest, bySchedule, entryBounds.schedule),
  DeleteSchedule: method('enqueue', DeleteScheduleRequest, bySchedule),
  PauseSchedule: method('enqueue', PauseScheduleRequest, bySchedule),
  TriggerSchedule: method('enqueue', TriggerScheduleRequest, bySchedule),
  Subscribe: method('lease', SubscribeRequest, byTopic, entryBounds.subscribe),
  Unsubscribe: method('lease', UnsubscribeRequest, byTopic),
  ListSubscriptions: method('read', ListSubscriptionsRequest, (request) => parseListSubscriptions(request).group),
} satisfies Record<string, GroupMethod>;
