import type { ListQueuesRequest, ListQueuesResponse, QueueFilter } from '@taskmaster/proto';
import type { CallerAccess } from '../access/caller-access.ts';
import { numberOf, refusalOfQuery } from './query.ts';
import { jsonReply, type Reply } from './reply.ts';

/** Operations that HTTP offers. They are validated like calls over gRPC. */
export interface QueueReads {
  listQueues(request: ListQueuesRequest, access: CallerAccess): Promise<ListQueuesResponse>;
}

type NumberField = Exclude<keyof QueueFilter, 'nameRegex' | 'group'>;

const numberFields: ReadonlyMap<string, NumberField> = new Map([
  ['min_available', 'minAvailable'],
  ['max_available', 'maxAvailable'],
  ['min_leased', 'minLeased'],
  ['max_leased', 'maxLeased'],
  ['min_delayed', 'minDelayed'],
  ['max_delayed', 'maxDelayed'],
]);

/**
 * Reads a filter from query parameters: `regex`, `group` and bounds such as `min_available`. An invalid number becomes NaN;
 * the operation refuses it with the name of the field.
 */
function filterOf(query: URLSearchParams): QueueFilter {
  const filter: QueueFilter = { nameRegex: query.get('regex') ?? '', group: query.get('group') ?? undefined };
  for (const [parameter, field] of numberFields) {
    const text = query.get(parameter);
    if (text !== null) filter[field] = numberOf(text);
  }
  return filter;
}

const parameters: ReadonlySet<string> = new Set(['regex', 'group', 'limit', 'page_token', ...numberFields.keys()]);

/** `GET /api/queues`: a page of queues with their statistics. Rates are per second, times in ms. */
export async function queuesApi(reads: QueueReads, query: URLSearchParams, access: CallerAccess): Promise<Reply> {
  const refusal = refusalOfQuery(query, parameters);
  if (refusal !== undefined) return refusal;
  const limit = numberOf(query.get('limit') ?? '0');
  const pageToken = query.get('page_token') ?? '';
  const request = { filter: filterOf(query), limit, pageToken };
  const { queues, nextPageToken, unreachable } = await reads.listQueues(request, access);
  return jsonReply({ queues, nextPageToken, ...(unreachable.length > 0 && { unreachable }) });
}
