import { errorReply, type Reply } from './reply.ts';

/** The refusal of parameters that are unknown or given twice. Undefined: there are none. */
export function refusalOfQuery(query: URLSearchParams, known: ReadonlySet<string>): Reply | undefined {
  for (const name of new Set(query.keys())) {
    if (!known.has(name)) return badParameter(name, `is unknown; known parameters: ${[...known].join(', ')}`);
    if (query.getAll(name).length > 1) return badParameter(name, 'is given more than once');
  }
  return undefined;
}

function badParameter(name: string, problem: string): Reply {
  return errorReply(400, 'INVALID_ARGUMENT', `query parameter ${JSON.stringify(name.slice(0, 64))} ${problem}`);
}

/** The whole number of a parameter. NaN for other texts: the operation refuses it with the name of the field. */
export function numberOf(text: string): number {
  return /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
}
