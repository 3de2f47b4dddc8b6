import { setTimeout as delay } from 'node:timers/promises';
import type { V1Container, V1Probe } from '@kubernetes/client-node';
import { type ContainerReach, probeOnce } from './probe-actions.ts';
import { ProbeCounter } from './probe-counter.ts';

/** What the probes of a container say. */
export interface ProbeVerdicts {
  /** The startup probe has succeeded, or there is none. */
  started(): void;
  ready(ready: boolean): void;
  /** The container must be restarted. `problem`: what its probe has found. */
  failed(problem: string): void;
}

/** Runs the probes of a container in its order until the signal: startup first, then readiness and liveness side by side. */
export async function probeContainer(
  container: V1Container,
  reach: ContainerReach,
  verdicts: ProbeVerdicts,
  signal: AbortSignal,
): Promise<void> {
  const { startupProbe, readinessProbe, livenessProbe } = container;
  if (startupProbe && !(await succeeds(startupProbe, 'startup'))) return;
  if (signal.aborted) return;
  verdicts.started();
  if (!readinessProbe) verdicts.ready(true);
  await Promise.all([
    readinessProbe &&
      observe(readinessProbe, (verdict) => {
        verdicts.ready(verdict === 'success');
        return undefined;
      }),
    livenessProbe && succeeds(livenessProbe, 'liveness'),
  ]);

  /** Resolves with true at the first success of a startup probe; a liveness probe goes on. */
  async function succeeds(probe: V1Probe, kind: 'startup' | 'liveness'): Promise<boolean> {
    let succeeded = false;
    await observe(probe, (verdict, problem) => {
      if (verdict === 'failure') verdicts.failed(`${kind} probe failed: ${problem}`);
      else succeeded = true;
      return verdict === 'failure' || kind === 'startup' ? 'enough' : undefined;
    });
    return succeeded;
  }

  async function observe(
    probe: V1Probe,
    tell: (verdict: 'success' | 'failure', problem: string | undefined) => 'enough' | undefined,
  ): Promise<void> {
    const counter = new ProbeCounter(probe);
    try {
      await delay((probe.initialDelaySeconds ?? 0) * 1000, undefined, { signal });
      for (;;) {
        const problem = await probeOnce(probe, container, reach);
        if (signal.aborted) return;
        const verdict = counter.record(problem === undefined ? 'success' : 'failure');
        if (verdict !== undefined && tell(verdict, problem) === 'enough') return;
        await delay((probe.periodSeconds ?? 10) * 1000, undefined, { signal });
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}
