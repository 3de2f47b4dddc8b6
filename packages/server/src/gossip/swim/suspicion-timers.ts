import type { GossipTiming } from './options.ts';

interface SuspicionDeps {
  /** Whether the member is still suspected. */
  readonly isSuspect: (host: string) => boolean;
  /** Asks the member to answer and to object. */
  readonly probe: (host: string) => void;
  /** Whether this member is silent itself, so that a missing answer means nothing. */
  readonly isSilent: () => boolean;
  readonly onDead: (host: string) => void;
}

interface Suspicion {
  timer: NodeJS.Timeout;
  since: number;
  heard: boolean;
  lastLook: number;
}

/**
 * Declares a suspect dead after a timeout. It is probed many times until then, so that it is heard even if three of ten datagrams
 * are lost. An answer proves that it is alive, even if its objection is lost. If this thread itself was late, all suspects get
 * the whole timeout again.
 */
export class SuspicionTimers {
  readonly #timing: GossipTiming;
  readonly #deps: SuspicionDeps;
  readonly #running = new Map<string, Suspicion>();

  constructor(timing: GossipTiming, deps: SuspicionDeps) {
    this.#timing = timing;
    this.#deps = deps;
  }

  runs(host: string): boolean {
    return this.#running.has(host);
  }

  start(host: string): void {
    const now = performance.now();
    const suspicion: Suspicion = {
      since: now,
      lastLook: now,
      heard: false,
      timer: setInterval(() => this.#look(host, suspicion), this.#timing.suspectTimeoutMs / LOOKS),
    };
    this.#running.set(host, suspicion);
    this.#deps.probe(host);
  }

  /** Call this when a direct answer of a member arrives. */
  heard(host: string): void {
    const suspicion = this.#running.get(host);
    if (suspicion) suspicion.heard = true;
  }

  stop(): void {
    for (const { timer } of this.#running.values()) clearInterval(timer);
    this.#running.clear();
  }

  #look(host: string, suspicion: Suspicion): void {
    const now = performance.now();
    const late = now - suspicion.lastLook > (this.#timing.suspectTimeoutMs / LOOKS) * LATE;
    suspicion.lastLook = now;
    if (!this.#deps.isSuspect(host)) {
      this.#end(host, suspicion);
      return;
    }
    if (suspicion.heard || late || this.#deps.isSilent()) {
      suspicion.since = now;
      suspicion.heard = false;
    }
    if (now - suspicion.since < this.#timing.suspectTimeoutMs) {
      this.#deps.probe(host);
    } else {
      this.#end(host, suspicion);
      this.#deps.onDead(host);
    }
  }

  #end(host: string, { timer }: Suspicion): void {
    clearInterval(timer);
    this.#running.delete(host);
  }
}

/** Number of probes in one suspicion. At 30 % loss, all 25 are lost once in twenty million suspicions. */
const LOOKS = 25;
/** If this number of probes is overdue, this thread stood still. */
const LATE = 4;
