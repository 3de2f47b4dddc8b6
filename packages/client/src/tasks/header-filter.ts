import type { HeaderTest, HeaderFilter as WireFilter } from '@taskmaster/proto';

/** What a header must be: this text, one of these texts, text with this prefix, or there at all. */
export type HeaderCondition =
  | string
  | readonly string[]
  | { readonly prefix: string }
  /** False: there must be no such header. */
  | { readonly exists: boolean };

/** Conditions by the key of a header. All must hold. */
export type HeaderFilter = Readonly<Record<string, HeaderCondition>>;

/** @throws TypeError for a condition of another type. The node checks the rest. */
export function wireFilter(filter: HeaderFilter): WireFilter | undefined {
  const all = Object.entries(filter).map(([key, condition]): HeaderTest => ({ key, test: wireTest(key, condition) }));
  return all.length === 0 ? undefined : { all };
}

function wireTest(key: string, condition: HeaderCondition): HeaderTest['test'] {
  if (typeof condition === 'string') return { $case: 'in', value: { values: [condition] } };
  if (isList(condition) && condition.every((value) => typeof value === 'string')) {
    return { $case: 'in', value: { values: [...condition] } };
  }
  if (typeof condition === 'object' && condition !== null) {
    if ('prefix' in condition && typeof condition.prefix === 'string')
      return { $case: 'prefix', value: condition.prefix };
    if ('exists' in condition && typeof condition.exists === 'boolean')
      return { $case: 'exists', value: condition.exists };
  }
  throw new TypeError(`filter: ${key} is not text, a list of texts, { prefix } or { exists }`);
}

const isList = (condition: HeaderCondition): condition is readonly string[] => Array.isArray(condition);

/** The filter of a subscription that a node shows. */
export function headerFilter(filter: WireFilter | undefined): HeaderFilter {
  const conditions = (filter?.all ?? []).map(({ key, test }): [string, HeaderCondition] => {
    if (test?.$case === 'prefix') return [key, { prefix: test.value }];
    if (test?.$case === 'exists') return [key, { exists: test.value }];
    const values = test?.value.values ?? [];
    const [only, ...more] = values;
    return [key, only !== undefined && more.length === 0 ? only : values];
  });
  return Object.fromEntries(conditions);
}
