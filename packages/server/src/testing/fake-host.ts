import type { Host } from './sim-network.ts';
import type { VirtualTime } from './virtual-clock.ts';

/** A simulated process that has nothing but the calls that it answers. */
export class FakeHost implements Host {
  isUp = true;
  readonly outside: VirtualTime;
  readonly serving = new Set<() => void>();

  constructor(time: VirtualTime) {
    this.outside = time;
  }

  /** Ends the process: the calls that it serves are lost. */
  stop(): void {
    this.isUp = false;
    const broken = [...this.serving];
    this.serving.clear();
    for (const end of broken) end();
  }
}
