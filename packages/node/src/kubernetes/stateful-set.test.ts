import { keptLog, VirtualClock, VirtualTime } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';
import { type KubernetesApi, KubernetesError } from './api.ts';
import { futureOf, ordinalOf, podFuture } from './stateful-set.ts';

const aStatefulSet = (replicas: number, { start = 0, deletionTimestamp = undefined as string | undefined } = {}) => ({
  metadata: { deletionTimestamp },
  spec: { replicas, ordinals: { start } },
});

test.each([
  ['tm-2', 'tm', 2],
  ['tm-nodes-12', 'tm-nodes', 12],
  ['tm-nodes-12', 'tm', undefined],
  ['tm-', 'tm', undefined],
  ['tm', 'tm', undefined],
  ['other-1', 'tm', undefined],
])('the ordinal of %s in %s is %s', (pod, statefulSet, ordinal) => {
  expect(ordinalOf(pod, statefulSet)).toBe(ordinal);
});

test.each([
  ['the last of the replicas', 2, aStatefulSet(3), 'stays'],
  ['one above the replicas', 3, aStatefulSet(3), 'goes'],
  ['below the first ordinal', 1, aStatefulSet(3, { start: 2 }), 'goes'],
  ['the last behind a first ordinal', 4, aStatefulSet(3, { start: 2 }), 'stays'],
  ['any of zero replicas', 0, aStatefulSet(0), 'stays'],
  ['above the replicas of a deleted set', 3, aStatefulSet(3, { deletionTimestamp: '2026-01-01T00:00:00Z' }), 'stays'],
])('a pod that is %s', (_case, ordinal, statefulSet, kind) => {
  expect(futureOf(ordinal, statefulSet)).toMatchObject({ kind });
});

describe('the future of a pod', () => {
  /** An API server that gives these answers, one after the other. */
  async function asked(...answers: (object | Error)[]) {
    const time = new VirtualTime();
    const paths: string[] = [];
    const get = async (path: string): Promise<unknown> => {
      paths.push(path);
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      return answer;
    };
    const api: KubernetesApi = { namespace: 'queues', get, put: () => Promise.reject(new Error('not expected')) };
    const log = keptLog();
    const deps = { api: async () => api, clock: new VirtualClock({ time }), log };
    return { future: await time.run(podFuture('tm-3', 'tm', deps), 60_000), paths };
  }

  const silence = new KubernetesError('the API server does not answer');

  test('is read from the StatefulSet in the namespace of the pod', async () => {
    const { future, paths } = await asked({ metadata: {}, spec: { replicas: 3 } });
    expect(future).toEqual({ kind: 'goes', replicas: 3 });
    expect(paths).toEqual(['/apis/apps/v1/namespaces/queues/statefulsets/tm']);
  });

  test('is asked for again if the API server does not answer', async () => {
    const { future } = await asked(silence, silence, { metadata: {}, spec: { replicas: 3 } });
    expect(future.kind).toBe('goes');
  });

  test.each([
    ['does not answer', [silence, silence, silence]],
    ['refuses', [1, 2, 3].map(() => new KubernetesError('forbidden', 403))],
    ['answers with something else', [{}, { metadata: {} }, { metadata: {}, spec: { replicas: '3' } }]],
    ['knows no such StatefulSet', [new KubernetesError('not found', 404)]],
  ])('is to stay if the API server %s', async (_case, answers) => {
    expect((await asked(...answers)).future.kind).toBe('stays');
  });
});
