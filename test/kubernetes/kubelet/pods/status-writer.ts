import { type CoreV1Api, PatchStrategy, setHeaderOptions, type V1Pod, type V1PodStatus } from '@kubernetes/client-node';
import { isAnswerWith, persist } from '../api/persist.ts';

export interface StatusWriterDeps {
  readonly core: CoreV1Api;
  readonly pod: V1Pod;
  /** The status of the pod. `before`: what the API server has. */
  readonly statusNow: (before: V1PodStatus | undefined) => V1PodStatus;
  /** Ends all attempts. */
  readonly signal: AbortSignal;
  /** The API server has refused a status. */
  readonly failed: (error: unknown) => void;
}

/** Tells the API server the status of one pod. Several changes in a row are told as one. */
export class StatusWriter {
  readonly #deps: StatusWriterDeps;
  #before: V1PodStatus | undefined;
  #isDue = false;
  #isWriting = false;
  #writing: Promise<void> = Promise.resolve();

  constructor(deps: StatusWriterDeps) {
    this.#deps = deps;
  }

  /** The status has changed. */
  changed(): void {
    this.#isDue = true;
    if (this.#isWriting) return;
    this.#isWriting = true;
    this.#writing = this.#writeAll()
      .catch((error) => {
        if (!this.#deps.signal.aborted) this.#deps.failed(error);
      })
      .finally(() => {
        this.#isWriting = false;
      });
  }

  /** Resolves when the API server knows the latest status, or has no such pod. */
  async written(): Promise<void> {
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    const { core, signal, statusNow } = this.#deps;
    const { name = '', namespace = '', uid } = this.#deps.pod.metadata ?? {};
    while (this.#isDue && !signal.aborted) {
      this.#isDue = false;
      try {
        this.#before = await persist(async () => {
          const status = statusNow(this.#before);
          const body = { metadata: { uid }, status };
          // It leaves conditions alone that others have set.
          const strategy = setHeaderOptions('Content-Type', PatchStrategy.StrategicMergePatch);
          await core.patchNamespacedPodStatus({ name, namespace, body }, strategy);
          return status;
        }, signal);
      } catch (error) {
        if (isAnswerWith(error, 404)) return;
        if (!isAnswerWith(error, 409)) throw error;
        // Another pod has the name, or others have changed the pod too often in this moment.
        if (!(await this.#isThere())) return;
        this.#isDue = true;
      }
    }
  }

  async #isThere(): Promise<boolean> {
    const { core, signal } = this.#deps;
    const { name = '', namespace = '', uid } = this.#deps.pod.metadata ?? {};
    try {
      return (await persist(() => core.readNamespacedPod({ name, namespace }), signal)).metadata?.uid === uid;
    } catch (error) {
      if (isAnswerWith(error, 404)) return false;
      throw error;
    }
  }
}
