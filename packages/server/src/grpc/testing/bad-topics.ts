import { type Enqueue, type HeaderTest, limits, type Reason, type SubscribeRequest } from '@taskmaster/proto';
import { type BadRequest, bad as badRequest } from './bad-request.ts';
import { anEnqueue, anUpdate, aRetry } from './requests.ts';

const good: SubscribeRequest = {
  topic: 'shop#orders',
  queue: 'shop#mail',
  filter: undefined,
  ttlMs: 0,
  deleteQueue: false,
};

const bad = (what: string, reason: Reason, field: string, change: Partial<SubscribeRequest>): BadRequest =>
  badRequest(what, reason, field, (node) => node.subscribe({ ...good, ...change }));
const publication = (what: string, reason: Reason, field: string, change: Partial<Enqueue>): BadRequest =>
  badRequest(what, reason, field, (node) => node.updateTasks(anUpdate({ enqueue: [anEnqueue(change)] })));
const filter = (
  what: string,
  tests: readonly HeaderTest[],
  reason: Reason = 'INVALID_ARGUMENT',
  at = 'filter.all[0]',
) => bad(what, reason, at, { filter: { all: [...tests] } });

const exists = (key: string): HeaderTest => ({ key, test: { $case: 'exists', value: true } });
const oneOf = (key: string, values: string[]): HeaderTest => ({ key, test: { $case: 'in', value: { values } } });
const prefix = (key: string, value: string): HeaderTest => ({ key, test: { $case: 'prefix', value } });
const times = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));
const long = (length: number): string => 'x'.repeat(length);

/** Calls about topics, and publications, that every transport must refuse. */
export const badTopics: readonly BadRequest[] = [
  bad('a topic without a name', 'INVALID_QUEUE', 'topic', { topic: '' }),
  bad('a subscription of an unnamed queue', 'INVALID_QUEUE', 'queue', { queue: 'shop#' }),
  bad('a subscription of a reserved queue', 'INVALID_QUEUE', 'queue', { queue: 'shop#$taskmaster/settings' }),
  bad('a reserved topic', 'INVALID_QUEUE', 'topic', { topic: 'shop#$taskmaster/x' }),
  bad('a queue of another group than the topic', 'MIXED_GROUPS', 'queue', { queue: 'other#mail' }),
  bad('a queue with a long name', 'INVALID_QUEUE', 'queue', { queue: `shop#${long(513)}` }),
  bad('a short time to live', 'INVALID_ARGUMENT', 'ttl_ms', { ttlMs: limits.minSubscriptionMs - 1 }),
  bad('a negative time to live', 'INVALID_ARGUMENT', 'ttl_ms', { ttlMs: -1 }),
  bad('a time to live of more than a year', 'INVALID_ARGUMENT', 'ttl_ms', { ttlMs: limits.subscriptionMs + 1 }),
  filter(
    'a filter of too many tests',
    times(9, (at) => exists(`k${at}`)),
    'TOO_MANY_ITEMS',
    'filter.all',
  ),
  filter('a test without a key', [exists('')]),
  filter('a test of a key with a space', [exists('a b')]),
  filter('a test without a condition', [{ key: 'a', test: undefined }]),
  filter('a test for no value', [oneOf('a', [])]),
  filter('a test for too many values', [oneOf('a', times(33, String))], 'TOO_MANY_ITEMS'),
  filter('a test for a value with a line end', [oneOf('a', ['b\n'])]),
  filter('a test for an empty prefix', [prefix('a', '')]),
  filter('a test for a prefix with a control character', [prefix('a', '\0')]),
  filter('two tests of one key', [exists('a'), prefix('a', 'b')], 'INVALID_ARGUMENT', 'filter.all[1]'),
  filter('a large filter', [oneOf('a', [long(4_096)])], 'INVALID_ARGUMENT', 'filter.all'),
  badRequest('the end of a subscription to an unnamed topic', 'INVALID_QUEUE', 'topic', (node) =>
    node.unsubscribe({ topic: '#', queue: 'mail' }),
  ),
  badRequest('the end of a subscription in two groups', 'MIXED_GROUPS', 'queue', (node) =>
    node.unsubscribe({ topic: 'shop#orders', queue: 'mail' }),
  ),
  badRequest('subscriptions of nothing', 'INVALID_QUEUE', 'topic', (node) => node.listSubscriptions({ topic: '' })),
  badRequest('subscriptions of a long group', 'INVALID_QUEUE', 'topic', (node) =>
    node.listSubscriptions({ topic: `${long(513)}#` }),
  ),
  publication('a topic beside a queue', 'INVALID_ARGUMENT', 'enqueue[0].topic', { topic: 'shop#orders' }),
  publication('a publication without a topic', 'INVALID_QUEUE', 'enqueue[0].topic', { queue: '', topic: 'shop#' }),
  publication('a publication to a reserved topic', 'INVALID_QUEUE', 'enqueue[0].topic', {
    queue: '',
    topic: 'shop#$taskmaster/x',
  }),
  publication('a publication with a negative time limit', 'INVALID_ARGUMENT', 'enqueue[0].time_limit_ms', {
    queue: '',
    topic: 'shop#orders',
    timeLimitMs: -1,
  }),
  publication('a publication with a long time limit', 'INVALID_ARGUMENT', 'enqueue[0].time_limit_ms', {
    queue: '',
    topic: 'shop#orders',
    timeLimitMs: limits.timeLimitMs + 1,
  }),
  publication('a publication with one dead-letter queue', 'INVALID_ARGUMENT', 'enqueue[0].retry.dead_letter_queue', {
    queue: '',
    topic: 'shop#orders',
    retry: aRetry({ deadLetterQueue: 'shop#dead' }),
  }),
];
