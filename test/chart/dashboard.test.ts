import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { root } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';
import { skippedBecause, whyNo } from '../support/prometheus.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { dashboardOf } from './dashboard/dashboard.ts';
import { dashboardFile, filledIn, panelsInFile } from './dashboard/expressions.ts';
import { render, whyNoHelm } from './helm.ts';
import { unknownIn } from './known-metrics.ts';

const problem = whyNo('promtool');
const alertsFile = join(root, 'deploy/k8s/files/alerts.yaml');
const examples = join(root, 'deploy/examples');

async function alertNames(): Promise<string[]> {
  const { groups } = parse(await readFile(alertsFile, 'utf8')) as {
    readonly groups: readonly { readonly rules: readonly { readonly alert: string }[] }[];
  };
  return groups.flatMap(({ rules }) => rules.map(({ alert }) => alert));
}

interface ScrapeConfig {
  readonly kubernetes_sd_configs?: unknown;
  readonly tls_config?: { readonly server_name?: string };
  readonly relabel_configs?: readonly {
    readonly source_labels: readonly [string];
    readonly regex?: string;
    readonly action?: string;
  }[];
}

describe('the dashboard of Grafana', () => {
  test('is in its file as the panels are described (vitest -u writes it)', async () => {
    const text = `${JSON.stringify(dashboardOf(await alertNames()), undefined, 1)}\n`;
    await expect(text).toMatchFileSnapshot(dashboardFile);
  });

  test('looks only at metrics that exist, with labels that they have', () => {
    const unknown = panelsInFile().flatMap(({ title, targets = [] }) =>
      targets.flatMap(({ expr }) => unknownIn(expr).map((what) => `${title}: ${what}`)),
    );
    expect(unknown).toEqual([]);
  });

  test('has panels with ids, titles and descriptions of their own, and a place of their own', () => {
    const panels = panelsInFile();
    expect(panels.length).toBeGreaterThan(50);
    for (const what of ['id', 'title', 'description'] as const) {
      const all = panels.map((panel) => panel[what]);
      expect(new Set(all).size, what).toBe(all.length);
    }
    for (const { title, description, gridPos } of panels) {
      expect(description, title).toMatch(/^[A-Z"0-9].*\.$/s);
      expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24);
    }
    const taken = new Map<string, string>();
    for (const { title, gridPos: at } of panels) {
      for (let x = at.x; x < at.x + at.w; x++) {
        for (let y = at.y; y < at.y + at.h; y++) {
          expect(taken.get(`${x},${y}`), `beside ${title}`).toBeUndefined();
          taken.set(`${x},${y}`, title);
        }
      }
    }
  });

  test('leads from each alert to what to do, and to nothing else', async () => {
    const urls = panelsInFile().flatMap(({ links = [] }) => links.map(({ url }) => url));
    const sections = (await alertNames()).map((name) => name.toLowerCase());
    const linked = new Set(urls.map((url) => url.replace(/^\$\{documents:raw\}docs\/operate\/alerts\.md#/, '')));
    expect([...linked].toSorted()).toEqual(sections.toSorted());
  });

  test.skipIf(problem !== undefined)(`has expressions that Prometheus parses${skippedBecause(problem)}`, async () => {
    await using dir = await temporaryDirectory();
    const file = join(dir.path, 'expressions.yaml');
    const expressions = panelsInFile().flatMap(({ targets = [] }) => targets.map(({ expr }) => filledIn(expr)));
    expect(expressions.join('\n')).not.toContain('$');
    const rules = expressions.map((expr, index) => ({ record: `panel:${index}`, expr }));
    await writeFile(file, JSON.stringify({ groups: [{ name: 'panels', rules }] }));
    const { code, stdout, stderr } = await runProcess('promtool', ['check', 'rules', '--lint-fatal', file]);
    expect({ code, output: stdout + stderr }).toMatchObject({
      code: 0,
      output: expect.stringContaining(`SUCCESS: ${rules.length} rules found`),
    });
  });
});

describe('the scrape configuration', () => {
  test.skipIf(problem !== undefined).each(['prometheus.yaml', 'prometheus-kubernetes.yaml'])(
    `in %s is accepted by promtool${skippedBecause(problem)}`,
    async (name) => {
      await using dir = await temporaryDirectory();
      const text = (await readFile(join(examples, name), 'utf8')).replaceAll('/etc/prometheus/taskmaster', dir.path);
      await writeFile(join(dir.path, 'metrics-token'), 'secret');
      await writeFile(join(dir.path, 'ca.crt'), '');
      await copyFile(alertsFile, join(dir.path, 'alerts.yaml'));
      const check = async (config: string) => {
        const file = join(dir.path, name);
        await writeFile(file, config);
        const { code, stdout, stderr } = await runProcess('promtool', ['check', 'config', '--lint-fatal', file]);
        return { code, output: stdout + stderr };
      };
      let checked = await check(text);
      // Debian builds Prometheus without Kubernetes. All but the discovery is checked there.
      if (checked.output.includes('kubernetes_sd_configs not found')) {
        const config = parse(text) as { readonly scrape_configs: readonly ScrapeConfig[] };
        const without = config.scrape_configs.map(({ kubernetes_sd_configs: _, ...job }) => job);
        checked = await check(JSON.stringify({ ...config, scrape_configs: without }));
      }
      expect(checked).toMatchObject({ code: 0, output: expect.stringContaining('SUCCESS') });
    },
  );

  test.skipIf(whyNoHelm !== undefined)('finds the pods of the chart', async () => {
    const { scrape_configs: jobs } = parse(await readFile(join(examples, 'prometheus-kubernetes.yaml'), 'utf8')) as {
      readonly scrape_configs: readonly ScrapeConfig[];
    };
    const [{ relabel_configs: rules = [], tls_config: tls } = {}] = jobs;
    const kept = (label: string): RegExp => {
      const rule = rules.find(
        ({ source_labels: [source], action }) => source === `__meta_kubernetes_pod_${label}` && action === 'keep',
      );
      return new RegExp(`^(?:${rule?.regex})$`);
    };
    const { objects } = await render();
    const programs = objects.filter(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment');
    expect(programs).toHaveLength(2);
    for (const { spec } of programs) {
      const { template } = spec as {
        readonly template: {
          readonly metadata: { readonly labels: Readonly<Record<string, string>> };
          readonly spec: {
            readonly containers: readonly {
              readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
            }[];
          };
        };
      };
      const { labels } = template.metadata;
      expect(labels['app.kubernetes.io/name']).toMatch(kept('label_app_kubernetes_io_name'));
      expect(labels['app.kubernetes.io/component']).toMatch(kept('label_app_kubernetes_io_component'));
      expect(labels).toHaveProperty(['app.kubernetes.io/instance']);
      const ports = template.spec.containers.flatMap((container) => container.ports);
      const scraped = ports.filter(({ name }) => kept('container_port_name').test(name));
      expect(scraped.map(({ containerPort }) => containerPort)).toEqual([7401]);
    }
    expect(JSON.stringify(objects)).toContain(tls?.server_name);
  });
});
