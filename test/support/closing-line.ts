import type { Reporter, TestModule } from 'vitest/node';

/** Ends a run with one line that programs can read: `N passed, N failed, N skipped`. */
export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    // A module that failed without a failed test, and an error outside of any test, also count as failures.
    const counts = { passed: 0, failed: errors.length, skipped: 0 };
    for (const module of modules) {
      const tests = [...module.children.allTests()];
      const blamed = tests.some((test) => test.result().state === 'failed');
      if (module.state() === 'failed' && !blamed) counts.failed++;
      for (const test of tests) {
        const { state } = test.result();
        if (state !== 'pending') counts[state]++;
      }
    }
    const { passed, failed, skipped } = counts;
    process.stdout.write(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`);
  }
}
