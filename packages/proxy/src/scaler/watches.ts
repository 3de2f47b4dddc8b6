import { status } from '@grpc/grpc-js';
import { type CallSignal, Refusal } from '@taskmaster/engine/domain';
import type { CancelTimer, Clock, Log } from '@taskmaster/engine/ports';
import type { Figures, Selection } from './figures.ts';

export interface WatchesDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** Pause between two reads of one selection, in ms. */
  readonly pollIntervalMs: number;
  /** `signal`: aborted when no watcher is left. */
  readonly read: (selection: Selection, signal: AbortSignal) => Promise<Figures>;
}

/** Watches queues. All watchers of one selection share its reads. */
export class Watches {
  readonly #deps: WatchesDeps;
  readonly #watches = new Map<string, Watch>();
  /** The watches whose last read failed. */
  readonly #failing = new Set<Watch>();

  constructor(deps: WatchesDeps) {
    this.#deps = deps;
  }

  /**
   * The figures of a selection: at once, and after each read. A slow reader gets only the latest. Ends when the signal aborts.
   * Throws a `Refusal` if the selection is wrong. If its node does not answer, the next figures come when it does.
   */
  async *figures(selection: Selection, signal: CallSignal | undefined): AsyncGenerator<Figures, undefined> {
    const watch = this.#watchOf(selection);
    let wake = (): void => {};
    const onNews = (): void => wake();
    watch.listeners.add(onNews);
    signal?.addEventListener('abort', onNews);
    try {
      let seen: Figures | undefined;
      for (;;) {
        while (!signal?.aborted && !watch.failure && (watch.latest === undefined || watch.latest === seen)) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
        if (signal?.aborted) return;
        if (watch.failure) throw watch.failure.thrown;
        seen = watch.latest;
        if (seen) yield seen;
      }
    } finally {
      signal?.removeEventListener('abort', onNews);
      watch.listeners.delete(onNews);
      if (watch.listeners.size === 0) this.#end(watch);
    }
  }

  #watchOf(selection: Selection): Watch {
    const known = this.#watches.get(selection.key);
    if (known) return known;
    const watch = new Watch(selection);
    this.#watches.set(selection.key, watch);
    void this.#poll(watch);
    return watch;
  }

  /** Reads once, and sets the timer for the next time. */
  async #poll(watch: Watch): Promise<void> {
    try {
      watch.latest = await this.#deps.read(watch.selection, watch.ended.signal);
      this.#recovered(watch);
    } catch (thrown) {
      watch.latest = undefined;
      if (thrown instanceof Refusal && thrown.code !== status.INVALID_ARGUMENT) this.#failed(watch, thrown);
      else watch.failure = { thrown };
    }
    if (watch.ended.signal.aborted) return;
    if (watch.failure) this.#end(watch);
    else watch.cancelTimer = this.#after(this.#deps.pollIntervalMs, () => void this.#poll(watch));
    for (const listener of watch.listeners) listener();
  }

  #after(ms: number, callback: () => void): CancelTimer {
    const { clock } = this.#deps;
    return clock.at((clock.now() + ms) as ReturnType<typeof clock.now>, callback);
  }

  #end(watch: Watch): void {
    watch.ended.abort();
    watch.cancelTimer();
    this.#failing.delete(watch);
    const { key } = watch.selection;
    if (this.#watches.get(key) === watch) this.#watches.delete(key);
  }

  /** A lost node may hold hundreds of watched queues: one line of the log is enough. */
  #failed(watch: Watch, { reason, message }: Refusal): void {
    if (watch.ended.signal.aborted) return;
    const isFirst = this.#failing.size === 0;
    this.#failing.add(watch);
    if (isFirst) {
      this.#deps.log.warn(
        { queues: watch.selection.key, reason, problem: message },
        'a queue that an autoscaler watches cannot be read: autoscalers keep their last state',
      );
    }
  }

  #recovered(watch: Watch): void {
    if (this.#failing.delete(watch) && this.#failing.size === 0) {
      this.#deps.log.info({}, 'all queues that autoscalers watch can be read again');
    }
  }
}

/** The reads of one selection, while at least one watcher is there. */
class Watch {
  readonly selection: Selection;
  readonly listeners = new Set<() => void>();
  readonly ended = new AbortController();
  /** The last figures. Undefined: there are none yet, or the last read failed. */
  latest: Figures | undefined;
  /** Ends all watchers. */
  failure: { readonly thrown: unknown } | undefined;
  cancelTimer: CancelTimer = () => {};

  constructor(selection: Selection) {
    this.selection = selection;
  }
}
