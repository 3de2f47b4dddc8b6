import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { parseTrigger } from './trigger.ts';

const FOLDER = new URL('../../../../deploy/examples/', import.meta.url);

/** The only document of an example. */
function example(name: string): unknown {
  const documents = parseAllDocuments(readFileSync(new URL(name, FOLDER), 'utf8'), { strict: true });
  expect(documents.flatMap(({ errors }) => errors)).toEqual([]);
  expect(documents).toHaveLength(1);
  return documents[0]?.toJS();
}

test('the triggers of the example for KEDA are accepted, and scale the example of workers', () => {
  const { spec } = example('keda.yaml') as {
    readonly spec: {
      readonly scaleTargetRef: object;
      readonly triggers: readonly { readonly type: string; readonly metadata: Record<string, string> }[];
    };
  };
  const triggers = spec.triggers.map(({ type, metadata }) => [type, parseTrigger(metadata)]);
  expect(triggers).toMatchObject([
    ['external-push', { target: 20, selection: { request: { queues: ['shop#mail'] } } }],
    ['external', { target: 60, activation: 60, selection: { request: { filter: { group: 'shop' } } } }],
  ]);
  expect(example('workers.yaml')).toMatchObject({ kind: 'Deployment', metadata: spec.scaleTargetRef });
});

test('the example for an HPA asks for the metric of the rule, and scales the example of workers', () => {
  const [rule] = (
    example('prometheus-adapter.yaml') as {
      readonly rules: { readonly external: readonly { readonly name: { readonly as: string } }[] };
    }
  ).rules.external;
  const { spec } = example('hpa.yaml') as {
    readonly spec: { readonly scaleTargetRef: { readonly name: string }; readonly metrics: readonly object[] };
  };
  expect(spec.metrics).toMatchObject([{ external: { metric: { name: rule?.name.as } } }]);
  expect(example('workers.yaml')).toMatchObject({ metadata: { name: spec.scaleTargetRef.name } });
});
