import type { V1Pod } from '@kubernetes/client-node';
import { expect, test } from 'vitest';
import { chooseNode } from './scheduler.ts';

const pod = (owner: string, nodeName?: string): V1Pod => ({
  metadata: {
    ownerReferences: [{ apiVersion: 'apps/v1', kind: 'StatefulSet', name: owner, uid: owner, controller: true }],
  },
  spec: { containers: [], nodeName },
});

test.each([
  ['the first node when all are empty', [], 'a'],
  ['a node without a pod of its controller', [pod('x', 'a'), pod('y', 'b'), pod('y', 'b')], 'b'],
  ['the emptier one of two equal nodes', [pod('x', 'a'), pod('x', 'b'), pod('y', 'a')], 'b'],
])('a pod gets %s', (_what, pods, expected) => {
  expect(chooseNode(pod('x'), ['a', 'b'], pods)).toBe(expected);
});
