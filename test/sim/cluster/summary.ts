import { FAULTS } from './faults/fault.ts';
import type { SimulationResult } from './simulation.ts';

const HOUR_MS = 3_600_000;

/** The results of all seeds. */
export class Summary {
  readonly #faults = new Map<string, number>(FAULTS.map((fault) => [fault, 0]));
  readonly #violations: { readonly seed: number; readonly violations: readonly string[] }[] = [];
  #seeds = 0;
  #operations = 0;
  #simulatedMs = 0;

  get failed(): number {
    return this.#violations.length;
  }

  add({ seed, violations, events, faults, simulatedMs }: SimulationResult): void {
    this.#seeds++;
    this.#operations += events.length;
    this.#simulatedMs += simulatedMs;
    for (const [fault, count] of faults) this.#faults.set(fault, (this.#faults.get(fault) ?? 0) + count);
    if (violations.length > 0) this.#violations.push({ seed, violations });
  }

  toJSON(): object {
    const faults = [...this.#faults].map(([fault, count]) => [fault.replaceAll(/[ -]/g, '_'), count] as const);
    return {
      seeds: this.#seeds,
      operations: this.#operations,
      faults: Object.fromEntries(faults),
      simulatedHours: Math.round((this.#simulatedMs / HOUR_MS) * 100) / 100,
      violations: this.#violations,
    };
  }

  text(): string {
    const faults = [...this.#faults].map(([fault, count]) => `${fault} ${count}`).join(' · ');
    const hours = (this.#simulatedMs / HOUR_MS).toFixed(1);
    const broken = this.failed === 0 ? 'the contract held' : `${this.failed} broke the contract`;
    return `${this.#seeds} seeds, ${this.#operations} calls in ${hours} simulated hours: ${broken}\n${faults}\n`;
  }
}
