import { constants } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { V1Container } from '@kubernetes/client-node';
import type { Ended } from '../../../support/processes/child-process.ts';
import { messageOf } from '../message-of.ts';
import type { ContainerState, ContainerView, Terminated } from '../pods/pod-status.ts';
import { act, type ContainerReach } from '../probes/probe-actions.ts';
import { probeContainer } from '../probes/prober.ts';
import type { LaunchedContainer } from './container-process.ts';

/** Kubernetes waits from ten seconds to five minutes. */
const BACKOFF_MS = { first: 250, longest: 5_000 };
/** Kubernetes shows so much of the output as the message of a container that failed. */
const MESSAGE_LENGTH = 2_048;
/** The least time between SIGTERM and SIGKILL, however long preStop took. */
const LEAST_GRACE_MS = 2_000;

export type RestartPolicy = 'Always' | 'OnFailure' | 'Never';

export interface ContainerDeps {
  readonly container: V1Container;
  readonly restartPolicy: RestartPolicy;
  /** Default of the time that a probe's restart gives. */
  readonly graceSeconds: number;
  /** Rejects while the container cannot be made, for example while a Secret is missing. */
  readonly launch: () => Promise<LaunchedContainer>;
  readonly dial: ContainerReach['dial'];
  /** Something of the view has changed. */
  readonly changed: () => void;
  readonly log: (line: string) => void;
}

/** One container of a pod: starts it, probes it, restarts it and stops it. */
export class Container {
  readonly #deps: ContainerDeps;
  readonly #stopping = new AbortController();
  #state: ContainerState = { kind: 'waiting', reason: 'ContainerCreating', message: '' };
  #last: Terminated | undefined;
  #restarts = 0;
  #isStarted = false;
  #isReady = false;
  #isOver = false;
  #launched: LaunchedContainer | undefined;
  #output = '';

  constructor(deps: ContainerDeps) {
    this.#deps = deps;
  }

  get view(): ContainerView {
    const { name, image = '' } = this.#deps.container;
    return {
      name,
      image,
      state: this.#state,
      last: this.#last,
      restarts: this.#restarts,
      isStarted: this.#isStarted,
      isReady: this.#isReady,
      isOver: this.#isOver,
    };
  }

  /** Runs a command inside. Rejects while the container does not run. */
  async exec(command: readonly string[], signal: AbortSignal): ReturnType<LaunchedContainer['exec']> {
    if (this.#launched === undefined) throw new Error(`container ${this.#deps.container.name} does not run`);
    return this.#launched.exec(command, signal);
  }

  /** Runs until the container is over for good. Resolves with its exit code. */
  async run(): Promise<number | undefined> {
    const { restartPolicy, log, container } = this.#deps;
    const stopped = this.#stopping.signal;
    while (!stopped.aborted) {
      const code = await this.#runOnce();
      if (code !== undefined) log(`container ${container.name} ended with ${code}`);
      const again = code === undefined || restartPolicy === 'Always' || (restartPolicy === 'OnFailure' && code !== 0);
      if (!again || stopped.aborted) break;
      if (code !== undefined && this.#state.kind === 'terminated') {
        this.#last = this.#state;
        this.#restarts++;
        this.#set({ kind: 'waiting', reason: 'CrashLoopBackOff', message: `it ended with ${code}` });
      }
      const pauseMs = Math.min(BACKOFF_MS.first * 2 ** Math.max(0, this.#restarts - 1), BACKOFF_MS.longest);
      await delay(pauseMs, undefined, { signal: stopped }).catch(() => {});
    }
    this.#isOver = true;
    this.#isReady = false;
    this.#deps.changed();
    return this.#state.kind === 'terminated' ? this.#state.exitCode : undefined;
  }

  /** What its command has written to standard output, from its last start. */
  get output(): string {
    return this.#launched?.running.stdout ?? this.#output;
  }

  /** Stops it for good: preStop, SIGTERM, and SIGKILL when the time is up. Resolves when its process has ended. */
  async stop(graceSeconds: number): Promise<void> {
    this.#stopping.abort();
    if (this.#launched) await this.#terminate(this.#launched, graceSeconds);
  }

  /** Ends its process as if the machine had. The restart policy says what follows. */
  async kill(): Promise<void> {
    await this.#launched?.running.kill('SIGKILL');
  }

  /** Resolves with the exit code; with undefined if it did not start. */
  async #runOnce(): Promise<number | undefined> {
    const { launch, container } = this.#deps;
    let launched: LaunchedContainer;
    try {
      launched = await launch();
    } catch (error) {
      this.#set({ kind: 'waiting', reason: 'CreateContainerConfigError', message: messageOf(error) });
      return undefined;
    }
    this.#launched = launched;
    const startedAt = new Date();
    this.#set({ kind: 'running', startedAt });
    const probing = new AbortController();
    const probed = this.#probe(launched, probing.signal);
    // A stop that came while it started has not seen the process.
    if (this.#stopping.signal.aborted) void this.#terminate(launched, this.#deps.graceSeconds);
    const ended = await launched.running.ended;
    probing.abort();
    await probed;
    this.#launched = undefined;
    this.#output = ended.stdout;
    this.#isStarted = false;
    this.#isReady = false;
    const exitCode = exitCodeOf(ended);
    if (exitCode !== 0) this.#deps.log(`${container.name}: ${ended.stderr.trim().split('\n').at(-1) ?? ''}`);
    const hasMessage = exitCode !== 0 && container.terminationMessagePolicy === 'FallbackToLogsOnError';
    const message = hasMessage ? { message: ended.stderr.slice(-MESSAGE_LENGTH) } : {};
    this.#set({ kind: 'terminated', exitCode, ...message, startedAt, finishedAt: new Date() });
    return exitCode;
  }

  async #probe(launched: LaunchedContainer, signal: AbortSignal): Promise<void> {
    const { container, dial, graceSeconds, changed, log } = this.#deps;
    const verdicts = {
      started: () => {
        this.#isStarted = true;
        changed();
      },
      ready: (ready: boolean) => {
        if (ready === this.#isReady || signal.aborted) return;
        this.#isReady = ready;
        log(`container ${container.name} is ${ready ? 'ready' : 'not ready'}`);
        changed();
      },
      failed: (problem: string) => {
        // Once the pod is being deleted, only its readiness counts.
        if (this.#stopping.signal.aborted) return;
        log(`${container.name}: ${problem}`);
        void this.#terminate(launched, container.livenessProbe?.terminationGracePeriodSeconds ?? graceSeconds);
      },
    };
    await probeContainer(container, { dial, exec: launched.exec }, verdicts, signal);
  }

  async #terminate({ running, signal, exec }: LaunchedContainer, graceSeconds: number): Promise<void> {
    const { container, dial, log } = this.#deps;
    const deadline = performance.now() + graceSeconds * 1000;
    const hook = container.lifecycle?.preStop;
    if (hook && graceSeconds > 0 && running.isRunning) {
      const over = AbortSignal.any([AbortSignal.timeout(graceSeconds * 1000), endOf(running.ended)]);
      try {
        if (hook.sleep) await delay(hook.sleep.seconds * 1000, undefined, { signal: over });
        else await act(hook, container, { dial, exec }, over);
      } catch (error) {
        log(`${container.name}: preStop failed: ${messageOf(error)}`);
      }
    }
    if (graceSeconds === 0) {
      await running.kill('SIGKILL');
      return;
    }
    signal('SIGTERM');
    const left = Math.max(deadline - performance.now(), LEAST_GRACE_MS);
    const timer = new AbortController();
    const late = delay(left, 'late' as const, { signal: timer.signal }).catch(() => undefined);
    if ((await Promise.race([running.ended, late])) === 'late') {
      log(`container ${container.name} is killed: it has not ended in time`);
      await running.kill('SIGKILL');
    }
    timer.abort();
  }

  #set(state: ContainerState): void {
    this.#state = state;
    this.#deps.changed();
  }
}

const exitCodeOf = ({ code, signal }: Ended): number => code ?? 128 + (signal ? constants.signals[signal] : 0);

/** A signal for the end of a process. */
function endOf(ended: Promise<unknown>): AbortSignal {
  const controller = new AbortController();
  void ended.then(() => controller.abort());
  return controller.signal;
}
