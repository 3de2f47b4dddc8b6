import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { root } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';
import { skippedBecause, whyNo } from '../support/prometheus.ts';
import { documentAt } from '../tidy/documents/documents.ts';
import { unknownIn } from './known-metrics.ts';

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels?: { readonly severity?: string };
  readonly annotations?: { readonly summary?: string; readonly runbook_url?: string };
}

interface Cases {
  readonly tests: readonly {
    readonly alert_rule_test: readonly { readonly alertname: string; readonly exp_alerts?: readonly unknown[] }[];
  }[];
}

const file = join(root, 'deploy/k8s/files/alerts.yaml');
const { groups } = parse(readFileSync(file, 'utf8')) as { groups: readonly { readonly rules: readonly Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const cases = ['cases.yaml', 'cases-of-days.yaml'].map((name) => join(root, 'test/chart/alerts', name));
const problem = whyNo('promtool');

describe('the alert rules', () => {
  test.each(rules)('$alert has a severity, a summary, and a section that says what to do', (rule) => {
    expect(rule.labels?.severity).toMatch(/^(critical|warning)$/);
    expect(rule.annotations?.summary).toMatch(/^[A-Z].*\.$/);
    expect(rule.annotations?.runbook_url).toBe(`docs/operate/alerts.md#${rule.alert.toLowerCase()}`);
  });

  test('are those that the page of alerts explains, in its order of sections or another', () => {
    const sections = [...documentAt('docs/operate/alerts.md').text.matchAll(/^### (.*)$/gm)].map(([, title]) => title);
    expect(sections.toSorted()).toEqual(rules.map(({ alert }) => alert).toSorted());
  });

  test('look only at metrics that exist, with labels that they have', () => {
    const unknown = rules.flatMap(({ alert, expr }) => unknownIn(expr).map((what) => `${alert}: ${what}`));
    expect(unknown).toEqual([]);
  });

  test('have a case each in the tests of promtool that fires', () => {
    const looks = cases.flatMap((path) => {
      const { tests } = parse(readFileSync(path, 'utf8')) as Cases;
      return tests.flatMap((one) => one.alert_rule_test);
    });
    for (const { alert } of rules) {
      const of = looks.filter(({ alertname }) => alertname === alert);
      expect(
        of.some(({ exp_alerts = [] }) => exp_alerts.length > 0),
        `${alert} fires`,
      ).toBe(true);
      expect(
        of.some(({ exp_alerts = [] }) => exp_alerts.length === 0),
        `${alert} is silent`,
      ).toBe(true);
    }
  });

  test.skipIf(problem !== undefined)(`pass the tests of promtool${skippedBecause(problem)}`, async () => {
    const checked = await runProcess('promtool', ['check', 'rules', '--lint-fatal', file]);
    expect(checked.stdout + checked.stderr).toContain(`SUCCESS: ${rules.length} rules found`);
    const tested = await runProcess('promtool', ['test', 'rules', ...cases]);
    expect(tested.stdout + tested.stderr).toContain('SUCCESS');
    expect(tested.code).toBe(0);
  });
});
