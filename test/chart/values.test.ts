import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Document, isMap, isPair, isScalar, parse, type YAMLMap } from 'yaml';
import { root } from '../support/paths.ts';
import { withGenerated } from '../tidy/documents/documents.ts';
import { chart, defaultsOf, entriesOf, type ValueSchema, valuesSchema } from './schema.ts';

const entries = entriesOf(valuesSchema);

/** The default values with the description of each as a comment. */
function valuesYaml(): string {
  const document = new Document(defaultsOf(valuesSchema));
  document.commentBefore =
    ' All values with their defaults. values.schema.json describes them; a test writes this file.';
  if (isMap(document.contents)) explain(document.contents, valuesSchema);
  return document.toString({ lineWidth: 0 });
}

function explain(map: YAMLMap, { properties = {} }: ValueSchema): void {
  for (const [index, pair] of map.items.entries()) {
    if (!isPair(pair) || !isScalar(pair.key)) continue;
    const schema = properties[String(pair.key.value)];
    pair.key.spaceBefore = index > 0;
    pair.key.commentBefore = ` ${schema?.description}`;
    if (schema?.properties !== undefined && isMap(pair.value)) explain(pair.value, schema);
  }
}

const cell = (text: string): string => text.replaceAll('|', '\\|');

const valueRow = ([path, { description = '', default: value }]: (typeof entries)[number]): string =>
  `| \`${path}\` | ${cell(description)} | \`${cell(JSON.stringify(value))}\` |`;

describe('the values of the chart', () => {
  test('have a description each, and a default', () => {
    const incomplete = entries.filter(([, { description, properties, default: value }]) => {
      const isDescribed = description?.endsWith('.');
      return !isDescribed || (properties === undefined && value === undefined);
    });
    expect(incomplete.map(([path]) => path)).toEqual([]);
  });

  test('are closed: a misspelt value is refused', () => {
    const open = entries.filter(
      ([, schema]) => schema.properties !== undefined && schema.additionalProperties !== false,
    );
    expect(open.map(([path]) => path)).toEqual([]);
  });

  test('are in values.yaml with their defaults (vitest -u writes it)', async () => {
    await expect(valuesYaml()).toMatchFileSnapshot(join(chart, 'values.yaml'));
  });

  test('are in the table of its README (vitest -u writes it)', async () => {
    const path = 'deploy/k8s/README.md';
    const rows = entries.filter(([, { properties }]) => properties === undefined).map(valueRow);
    const table = ['| value | meaning | default |', '| --- | --- | --- |', ...rows].join('\n');
    await expect(withGenerated(path, table)).toMatchFileSnapshot(join(root, path));
  });
});

test('the chart has the version of the packages', () => {
  const { version } = JSON.parse(readFileSync(join(root, 'packages/node/package.json'), 'utf8')) as { version: string };
  expect(parse(readFileSync(join(chart, 'Chart.yaml'), 'utf8'))).toMatchObject({ version, appVersion: version });
});
