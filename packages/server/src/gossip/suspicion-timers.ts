import type { GossipTiming } from './options.ts';

interface SuspicionDeps {
  /** Whether it has not objected yet. */
  readonly isSuspect: (host: string) => boolean;
  /** Asks it to answer and to object. */
  readonly probe: (host: string) => void;
  /** Whether this member itself answers nobody, so that what it does not hear means nothing. */
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
 * From suspicion to death. A suspect is asked many times meanwhile, so that with three datagrams of ten lost it is
 * heard; and an answer is proof of life even when its objection is lost. A thread that was late itself, because its
 * process stood still, gives everybody the whole time again.
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

  /** A direct answer of a member arrived. */
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

/** Probes in one suspicion: at 30 % loss all of 25 fail once in twenty million times. */
const LOOKS = 25;
/** Looks that are missing show that this thread stood still. */
const LATE = 4;
