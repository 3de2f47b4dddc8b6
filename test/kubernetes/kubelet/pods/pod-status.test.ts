import { describe, expect, test } from 'vitest';
import { type ContainerState, type ContainerView, type PodView, phaseOf, podStatus } from './pod-status.ts';

const at = new Date(1_000);
const waiting: ContainerState = { kind: 'waiting', reason: 'ContainerCreating', message: '' };
const running: ContainerState = { kind: 'running', startedAt: at };
const ended = (exitCode: number): ContainerState => ({ kind: 'terminated', exitCode, startedAt: at, finishedAt: at });

const container = (state: ContainerState, more: Partial<ContainerView> = {}): ContainerView => ({
  name: 'node',
  image: 'taskmaster',
  state,
  last: undefined,
  restarts: 0,
  isStarted: false,
  isReady: false,
  isOver: false,
  ...more,
});

const view = (containers: ContainerView[], initContainers: ContainerView[] = []): PodView => ({
  pod: {},
  address: '10.244.0.2',
  nodeAddress: '10.244.0.1',
  startedAt: at,
  containers,
  initContainers,
});

describe('the phase of a pod', () => {
  const over = { isOver: true };
  test.each([
    ['Pending', view([container(waiting)])],
    ['Pending', view([container(waiting)], [container(running)])],
    ['Failed', view([container(waiting)], [container(ended(1), over)])],
    ['Running', view([container(running)], [container(ended(0), over)])],
    ['Running', view([container(waiting, { restarts: 1 })])],
    ['Running', view([container(running), container(ended(0), over)])],
    ['Succeeded', view([container(ended(0), over)])],
    ['Failed', view([container(ended(0), over), container(ended(2), over)])],
  ])('%s', (expected, pod) => {
    expect(phaseOf(pod)).toBe(expected);
  });
});

describe('the status of a pod', () => {
  const conditionsOf = (status: ReturnType<typeof podStatus>): Record<string, string> =>
    Object.fromEntries((status.conditions ?? []).map(({ type, status: value }) => [type, value]));

  test('is ready when all containers are', () => {
    const [ready, unready] = [container(running, { isReady: true }), container(running)];
    expect(conditionsOf(podStatus(view([ready, ready]), undefined, at))).toMatchObject({ Ready: 'True' });
    expect(conditionsOf(podStatus(view([ready, unready]), undefined, at))).toMatchObject({ Ready: 'False' });
  });

  test('keeps the time of a condition that has not changed', () => {
    const before = podStatus(view([container(running)]), undefined, at);
    const later = podStatus(view([container(running, { isReady: true })]), before, new Date(2_000));
    const timeOf = (type: string) => later.conditions?.find((condition) => condition.type === type)?.lastTransitionTime;
    expect(timeOf('Initialized')).toEqual(at);
    expect(timeOf('Ready')).toEqual(new Date(2_000));
  });

  test('shows how a container ended before its restart', () => {
    const last = { kind: 'terminated', exitCode: 1, message: 'no disk', startedAt: at, finishedAt: at } as const;
    const { containerStatuses } = podStatus(view([container(running, { last, restarts: 1 })]), undefined, at);
    const terminated = { exitCode: 1, reason: 'Error', message: 'no disk' };
    expect(containerStatuses?.[0]).toMatchObject({ restartCount: 1, lastState: { terminated } });
  });
});
