import type { VirtualTime } from '@taskmaster/engine/testing';
import type { Host } from './sim-network.ts';

/** A simulated process that only answers calls. */
export class FakeHost implements Host {
  isUp = true;
  readonly outside: VirtualTime;
  readonly serving = new Set<() => void>();

  constructor(time: VirtualTime) {
    this.outside = time;
  }

  /** Ends the process. The calls in progress are lost. */
  stop(): void {
    this.isUp = false;
    const broken = [...this.serving];
    this.serving.clear();
    for (const end of broken) end();
  }
}
