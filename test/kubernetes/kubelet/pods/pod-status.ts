import type { V1ContainerStatus, V1Pod, V1PodCondition, V1PodStatus } from '@kubernetes/client-node';

/** How a container is. */
export type ContainerState =
  | { readonly kind: 'waiting'; readonly reason: string; readonly message: string }
  | { readonly kind: 'running'; readonly startedAt: Date }
  | {
      readonly kind: 'terminated';
      /** 128 and the number of the signal if one ended it. */
      readonly exitCode: number;
      /** What it wrote last, if its specification asks for it and it failed. */
      readonly message?: string;
      readonly startedAt: Date;
      readonly finishedAt: Date;
    };

export type Terminated = Extract<ContainerState, { kind: 'terminated' }>;

export interface ContainerView {
  readonly name: string;
  readonly image: string;
  readonly state: ContainerState;
  /** Its end before the last restart. */
  readonly last: Terminated | undefined;
  readonly restarts: number;
  readonly isStarted: boolean;
  readonly isReady: boolean;
  /** True if it will not run again. */
  readonly isOver: boolean;
}

export interface PodView {
  readonly pod: V1Pod;
  readonly address: string | undefined;
  readonly nodeAddress: string;
  readonly startedAt: Date;
  readonly initContainers: readonly ContainerView[];
  readonly containers: readonly ContainerView[];
}

/** The phase of a pod with these containers. */
export function phaseOf({ initContainers, containers }: PodView): 'Pending' | 'Running' | 'Succeeded' | 'Failed' {
  const failed = ({ isOver, state }: ContainerView): boolean =>
    isOver && state.kind === 'terminated' && state.exitCode !== 0;
  if (initContainers.some(failed)) return 'Failed';
  if (!initContainers.every(({ isOver }) => isOver)) return 'Pending';
  if (containers.length > 0 && containers.every(({ isOver }) => isOver)) {
    return containers.some(failed) ? 'Failed' : 'Succeeded';
  }
  return containers.some(({ state, restarts }) => state.kind !== 'waiting' || restarts > 0) ? 'Running' : 'Pending';
}

/** The status of a pod as the API shows it. `since`: when a condition got its value; it comes from the status before. */
export function podStatus(view: PodView, before: V1PodStatus | undefined, now: Date): V1PodStatus {
  const { address, nodeAddress, startedAt, initContainers, containers } = view;
  const phase = phaseOf(view);
  const isInitialized = initContainers.every(({ isOver, state }) => isOver && exitCodeOf(state) === 0);
  const isReady = phase === 'Running' && containers.every((container) => container.isReady);
  const condition = (type: string, isTrue: boolean): V1PodCondition => {
    const status = isTrue ? 'True' : 'False';
    const known = before?.conditions?.find((other) => other.type === type && other.status === status);
    return { type, status, lastTransitionTime: known?.lastTransitionTime ?? now };
  };
  return {
    phase,
    startTime: startedAt,
    hostIP: nodeAddress,
    hostIPs: [{ ip: nodeAddress }],
    ...(address === undefined ? {} : { podIP: address, podIPs: [{ ip: address }] }),
    conditions: [
      condition('PodReadyToStartContainers', address !== undefined),
      condition('Initialized', isInitialized),
      condition('ContainersReady', isReady),
      condition('Ready', isReady),
    ],
    initContainerStatuses: initContainers.map(containerStatus),
    containerStatuses: containers.map(containerStatus),
  };
}

function containerStatus(view: ContainerView): V1ContainerStatus {
  const { name, image, state, last, restarts, isStarted, isReady } = view;
  return {
    name,
    image,
    imageID: image,
    ready: isReady,
    started: isStarted,
    restartCount: restarts,
    state: shownState(state),
    lastState: last === undefined ? {} : shownState(last),
  };
}

function shownState(state: ContainerState): NonNullable<V1ContainerStatus['state']> {
  switch (state.kind) {
    case 'waiting':
      return { waiting: { reason: state.reason, message: state.message } };
    case 'running':
      return { running: { startedAt: state.startedAt } };
    case 'terminated': {
      const { exitCode, message, startedAt, finishedAt } = state;
      const reason = exitCode === 0 ? 'Completed' : 'Error';
      return { terminated: { exitCode, reason, message, startedAt, finishedAt } };
    }
  }
}

const exitCodeOf = (state: ContainerState): number | undefined =>
  state.kind === 'terminated' ? state.exitCode : undefined;
