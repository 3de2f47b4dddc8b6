import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { round } from '../machine.ts';
import { atMost, type Measurement, median } from '../measurement.ts';
import type { Bench, Row } from '../row.ts';

const TESTS = 100;
/** The whole run: start of Node.js, imports and tests. */
const TARGET_CPU_MS = 2_000;

const run = promisify(execFile);
const file = join(import.meta.dirname, '..', 'handler-tests', 'hundred.js');

/** What one run of the file takes. Rejects if a test fails. */
async function runTests(tests: number): Promise<{ readonly cpuMs: number; readonly wallMs: number }> {
  const began = performance.now();
  const { stderr } = await run(process.execPath, [file, String(tests)]);
  const { cpuMs } = JSON.parse(stderr) as { readonly cpuMs: number };
  return { cpuMs, wallMs: performance.now() - began };
}

export const handlerTests: Row = {
  name: 'handler-tests',
  about: 'a hundred tests of handlers on a queue in memory, with the start of their process',
  when: 'all',
  async *run(bench: Bench): AsyncGenerator<Measurement, void> {
    const all: Awaited<ReturnType<typeof runTests>>[] = [];
    const none: typeof all = [];
    for (let at = 1; at <= bench.scale.repetitions; at++) {
      bench.progress(`run ${at}`);
      none.push(await runTests(0));
      all.push(await runTests(TESTS));
    }
    const cpuMs = round(median(all.map((one) => one.cpuMs)), 0);
    yield {
      row: 'handler-tests',
      variant: `${TESTS} tests, node:test`,
      target: atMost('cpu_ms', cpuMs, TARGET_CPU_MS),
      load: bench.load,
      more: {
        cpu_ms: cpuMs,
        wall_ms: round(median(all.map((one) => one.wallMs)), 0),
        start_and_imports_cpu_ms: round(median(none.map((one) => one.cpuMs)), 0),
      },
    };
  },
};
