import { type Enqueue, limits, type Reason } from '@taskmaster/proto';

const many = Object.fromEntries(Array.from({ length: limits.headers + 1 }, (_, at) => [`h${at}`, '']));

interface BadHeaders {
  readonly what: string;
  readonly change: Partial<Enqueue>;
  readonly reason: Reason;
}

const bad = (what: string, change: Partial<Enqueue>, reason: Reason = 'INVALID_ARGUMENT'): BadHeaders => ({
  what,
  change,
  reason,
});

/** Enqueues with headers that every transport must refuse. */
export const badHeaders: readonly BadHeaders[] = [
  bad(
    'too much data with its headers',
    { data: Buffer.alloc(limits.dataBytes - 3), headers: { a: 'bc' } },
    'DATA_TOO_LARGE',
  ),
  bad('too many headers', { headers: many }, 'TOO_MANY_ITEMS'),
  bad('a header without a key', { headers: { '': 'x' } }),
  bad('a header with a long key', { headers: { ['x'.repeat(limits.headerKeyBytes + 1)]: '' } }),
  bad('a header with a space', { headers: { 'a b': 'x' } }),
  bad('a header of a dot', { headers: { '.': 'x' } }),
  bad('a header beyond ASCII', { headers: { größe: '1' } }),
  bad('a header that prototypes have', { headers: Object.fromEntries([['__proto__', 'x']]) }),
  bad('a header with a line end', { headers: { a: 'x\n' } }),
  bad('large headers, in bytes of UTF-8', { headers: { a: '€'.repeat(1_365), b: '' } }),
];
