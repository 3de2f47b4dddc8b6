import { type Clock, type Log, sleep } from '@taskmaster/engine/ports';
import { z } from 'zod';
import { type KubernetesApi, KubernetesError } from './api.ts';

/** Whether a pod that stops comes back. */
export type PodFuture =
  /** It comes back with its volume, or it is unknown whether it does. */
  | { readonly kind: 'stays'; readonly why: string }
  /** The StatefulSet was scaled down below this pod. */
  | { readonly kind: 'goes'; readonly replicas: number };

/** The fields of a StatefulSet that decide. */
const statefulSetSchema = z.object({
  metadata: z.object({ deletionTimestamp: z.string().optional() }),
  spec: z.object({
    replicas: z.number().int().min(0).default(1),
    ordinals: z.object({ start: z.number().int().min(0).default(0) }).default({ start: 0 }),
  }),
});

type StatefulSet = z.output<typeof statefulSetSchema>;

/** How often the API server is asked before the answer is unknown, and the pause between. */
const ATTEMPTS = 3;
const RETRY_MS = 2_000;

/** The ordinal of a pod; undefined if the pod is not of this StatefulSet. */
export function ordinalOf(pod: string, statefulSet: string): number | undefined {
  const [, ordinal] = pod.startsWith(`${statefulSet}-`) ? (/^-(\d+)$/.exec(pod.slice(statefulSet.length)) ?? []) : [];
  return ordinal === undefined ? undefined : Number(ordinal);
}

/** Decides by the number of replicas that the StatefulSet has now. */
export function futureOf(ordinal: number, { metadata, spec }: StatefulSet): PodFuture {
  const { replicas, ordinals } = spec;
  if (metadata.deletionTimestamp !== undefined) return { kind: 'stays', why: 'the StatefulSet is being deleted' };
  // There is no member left to hand over to. The volumes keep everything.
  if (replicas === 0) return { kind: 'stays', why: 'the StatefulSet has zero replicas' };
  const isWanted = ordinal >= ordinals.start && ordinal < ordinals.start + replicas;
  return isWanted
    ? { kind: 'stays', why: `ordinal ${ordinal} is one of ${replicas} replicas` }
    : { kind: 'goes', replicas };
}

export interface PodFutureDeps {
  readonly api: () => Promise<KubernetesApi>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Asks the API server whether a pod comes back after it stops. When in doubt it does: a node that keeps its partitions and its
 * volume loses nothing.
 */
export async function podFuture(
  pod: string,
  statefulSet: string,
  { api, clock, log }: PodFutureDeps,
): Promise<PodFuture> {
  const ordinal = ordinalOf(pod, statefulSet);
  if (ordinal === undefined) return { kind: 'stays', why: `${pod} is not a pod of the StatefulSet ${statefulSet}` };
  for (let attempt = 1; ; attempt++) {
    try {
      const server = await api();
      const object = await server.get(`/apis/apps/v1/namespaces/${server.namespace}/statefulsets/${statefulSet}`);
      return futureOf(ordinal, statefulSetSchema.parse(object));
    } catch (err) {
      if (err instanceof KubernetesError && err.status === 404)
        return { kind: 'stays', why: 'there is no StatefulSet' };
      log.warn({ err, attempt }, 'cannot read the number of replicas of the StatefulSet');
      if (attempt === ATTEMPTS) return { kind: 'stays', why: 'the number of replicas is unknown' };
      await sleep(clock, RETRY_MS);
    }
  }
}
