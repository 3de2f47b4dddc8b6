import type { Reporter, TestModule } from 'vitest/node';

/** What a name of skipped tests says about the reason. */
const REASON = /^.*?\(skipped: .*?\)/;

/** Ends a run with why tests were skipped, and one line that programs can read: `N passed, N failed, N skipped`. */
export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    // A module that failed without a failed test, and an error outside of any test, also count as failures.
    const counts = { passed: 0, failed: errors.length, skipped: 0 };
    const reasons = new Set<string>();
    for (const module of modules) {
      const tests = [...module.children.allTests()];
      const blamed = tests.some((test) => test.result().state === 'failed');
      if (module.state() === 'failed' && !blamed) counts.failed++;
      for (const test of tests) {
        const { state } = test.result();
        if (state !== 'pending') counts[state]++;
        const [reason] = (state === 'skipped' && REASON.exec(test.fullName)) || [];
        if (reason !== undefined) reasons.add(reason);
      }
    }
    const { passed, failed, skipped } = counts;
    for (const reason of reasons) process.stdout.write(`\n${reason}`);
    process.stdout.write(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`);
  }
}
