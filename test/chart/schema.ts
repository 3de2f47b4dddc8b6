import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../support/paths.ts';

export const chart = join(root, 'deploy', 'k8s');

/** A value of the chart, as values.schema.json describes it. */
export interface ValueSchema {
  readonly type: string | readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  /** The values in a group. */
  readonly properties?: Readonly<Record<string, ValueSchema>>;
  readonly additionalProperties?: unknown;
}

/** values.schema.json is the only place where values are described. A test writes values.yaml and the table of the README. */
export const valuesSchema = JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8')) as ValueSchema;

/** All values and groups of values by their path, in the order of the schema. */
export function entriesOf(
  { properties = {} }: ValueSchema,
  path: readonly string[] = [],
): (readonly [path: string, schema: ValueSchema])[] {
  return Object.entries(properties).flatMap(([key, schema]) => {
    const at = [...path, key];
    return [[at.join('.'), schema] as const, ...entriesOf(schema, at)];
  });
}

export function defaultsOf({ properties, default: value }: ValueSchema): unknown {
  if (properties === undefined) return value;
  return Object.fromEntries(Object.entries(properties).map(([key, schema]) => [key, defaultsOf(schema)]));
}
