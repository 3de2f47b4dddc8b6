import * as messages from '@taskmaster/proto/messages';
import { setServerClock, tokenStore } from './session.ts';

/** A type of messages, as it is generated. */
interface MessageType<T> {
  encode(message: T): { finish(): Uint8Array };
  decode(bytes: Uint8Array): T;
}

const method = <Q, R>(request: MessageType<Q>, reply: MessageType<R>) => ({ request, reply });

/** The methods that the pages call, with the types of their messages. */
const types = {
  CancelBulkRun: method(messages.CancelBulkRunRequest, messages.CancelBulkRunResponse),
  DeleteQueue: method(messages.DeleteQueueRequest, messages.DeleteQueueResponse),
  DeleteSchedule: method(messages.DeleteScheduleRequest, messages.DeleteScheduleResponse),
  DrainMember: method(messages.DrainMemberRequest, messages.DrainMemberResponse),
  GetQueueStats: method(messages.GetQueueStatsRequest, messages.GetQueueStatsResponse),
  GetTasks: method(messages.GetTasksRequest, messages.GetTasksResponse),
  ListBulkRuns: method(messages.ListBulkRunsRequest, messages.ListBulkRunsResponse),
  ListMembers: method(messages.ListMembersRequest, messages.ListMembersResponse),
  ListPartitions: method(messages.ListPartitionsRequest, messages.ListPartitionsResponse),
  ListQueueSettings: method(messages.ListQueueSettingsRequest, messages.ListQueueSettingsResponse),
  ListQueues: method(messages.ListQueuesRequest, messages.ListQueuesResponse),
  ListSchedules: method(messages.ListSchedulesRequest, messages.ListSchedulesResponse),
  ListSubscriptions: method(messages.ListSubscriptionsRequest, messages.ListSubscriptionsResponse),
  PauseQueues: method(messages.PauseQueuesRequest, messages.PauseQueuesResponse),
  PauseSchedule: method(messages.PauseScheduleRequest, messages.PauseScheduleResponse),
  PeekTasks: method(messages.PeekTasksRequest, messages.PeekTasksResponse),
  ReadEvents: method(messages.ReadEventsRequest, messages.ReadEventsResponse),
  ResetLeases: method(messages.ResetLeasesRequest, messages.ResetLeasesResponse),
  ResumeQueues: method(messages.ResumeQueuesRequest, messages.ResumeQueuesResponse),
  ResumeMember: method(messages.ResumeMemberRequest, messages.ResumeMemberResponse),
  StartBulkRun: method(messages.StartBulkRunRequest, messages.StartBulkRunResponse),
  TriggerSchedule: method(messages.TriggerScheduleRequest, messages.TriggerScheduleResponse),
  Unsubscribe: method(messages.UnsubscribeRequest, messages.UnsubscribeResponse),
  UpdateTasks: method(messages.UpdateTasksRequest, messages.UpdateTasksResponse),
  WaitForTasks: method(messages.WaitForTasksRequest, messages.WaitForTasksResponse),
};

type Types = typeof types;
type Request<K extends keyof Types> = Types[K]['request'] extends MessageType<infer Q> ? Q : never;
type Reply<K extends keyof Types> = Types[K]['reply'] extends MessageType<infer R> ? R : never;

const NOTHING = new Uint8Array(0);
const TIMEOUT_MS = 15_000;
/** How long a reply may be late before the page gives up on it, in ms. */
const LATE_MS = 5_000;

/** A message with these fields, and the others as if they were not there. */
export const make = <T>(type: MessageType<T>, fields: Partial<T>): T => ({ ...type.decode(NOTHING), ...fields });

/** A call that was refused, or that had no answer. */
export class CallError extends Error {
  override readonly name = 'CallError';
  /** As in docs/reference/errors.md; `UNREACHABLE` without an answer. */
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** The reasons of the items at fault. */
  readonly itemReasons: readonly string[];

  constructor(
    reason: string,
    message: string,
    metadata: Readonly<Record<string, string>> = {},
    itemReasons: readonly string[] = [],
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.reason = reason;
    this.metadata = metadata;
    this.itemReasons = itemReasons;
  }
}

/** The error as one. Bugs of the page are shown, too. */
export const callError = (thrown: unknown): CallError =>
  thrown instanceof CallError ? thrown : new CallError('PAGE', String(thrown), {}, [], { cause: thrown });

/** Calls a method of the API. Fields that are left out are unset. Rejects with a `CallError`. */
export async function call<K extends keyof Types>(
  name: K,
  fields: Partial<Request<K>>,
  signal?: AbortSignal,
): Promise<Reply<K>> {
  const { request, reply } = types[name] as unknown as {
    readonly request: MessageType<Request<K>>;
    readonly reply: MessageType<Reply<K>>;
  };
  const body = request.encode(make(request, fields)).finish();
  const headers = { 'content-type': 'application/proto', 'x-timeout-ms': String(TIMEOUT_MS) };
  const response = await send(`../rpc/${name}`, { method: 'POST', body: body as BodyInit, headers }, signal);
  return reply.decode(new Uint8Array(await response.arrayBuffer()));
}

/** Reads JSON of the server. Rejects with a `CallError`. */
export async function readJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await send(`../api/${path}`, { method: 'GET', headers: {} }, signal)).json() as Promise<T>;
}

async function send(
  path: string,
  init: { readonly method: string; readonly body?: BodyInit; readonly headers: Readonly<Record<string, string>> },
  signal: AbortSignal | undefined,
): Promise<Response> {
  const token = tokenStore.value;
  const headers = {
    ...init.headers,
    'x-taskmaster-console': '1',
    ...(token !== '' && { authorization: `Bearer ${token}` }),
  };
  const late = AbortSignal.timeout(TIMEOUT_MS + LATE_MS);
  let response: Response;
  try {
    response = await fetch(new URL(path, document.baseURI), {
      ...init,
      headers,
      cache: 'no-store',
      credentials: 'same-origin',
      referrerPolicy: 'no-referrer',
      signal: signal === undefined ? late : AbortSignal.any([signal, late]),
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    const message = late.aborted ? 'the server does not answer' : 'the server cannot be reached';
    throw new CallError('UNREACHABLE', message, {}, [], { cause });
  }
  setServerClock(response.headers.get('date'));
  if (response.ok) return response;
  throw await refusalOf(response);
}

interface RefusalJson {
  readonly reason?: string;
  readonly message?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly items?: readonly { readonly reason: string }[];
  readonly error?: Pick<RefusalJson, 'reason' | 'message' | 'metadata'>;
}

async function refusalOf(response: Response): Promise<CallError> {
  const text = await response.text();
  let json: RefusalJson;
  try {
    json = JSON.parse(text) as RefusalJson;
  } catch (cause) {
    // A proxy in between may answer with a page.
    return new CallError(`HTTP_${response.status}`, response.statusText || 'not an answer of TaskMaster', {}, [], {
      cause,
    });
  }
  const { reason, message, metadata } = json.error ?? json;
  const items = (json.items ?? []).map((item) => item.reason);
  return new CallError(reason ?? `HTTP_${response.status}`, message ?? text, metadata, items);
}
