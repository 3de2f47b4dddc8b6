import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../support/paths.ts';

/** What an expression asks of metrics of TaskMaster that do not exist, or of labels that they do not have. */
export function unknownIn(expression: string): string[] {
  const text = readFileSync(join(root, 'docs/reference/metrics.md'), 'utf8');
  const known = new Map(
    [...text.matchAll(/^\| `(taskmaster_\w+)(?:\{([^}]*)\})?` \| (\w+)/gm)].map(([, name = '', labels = '', type]) => [
      name,
      { labels: labels.split(','), type },
    ]),
  );
  return [...expression.matchAll(/(taskmaster_\w+)(?:\{([^}]*)\})?/g)].flatMap(([, name = '', matchers = '']) => {
    const histogram = known.get(name.replace(/_(?:bucket|sum|count)$/, ''));
    const metric = known.get(name) ?? (histogram?.type === 'histogram' ? histogram : undefined);
    if (metric === undefined) return [name];
    const labels = [...matchers.matchAll(/(\w+)(?:=|!=|=~|!~)"/g)].map(([, label = '']) => label);
    return labels
      .filter((label) => !OF_TARGETS.has(label) && !metric.labels.includes(label))
      .map((l) => `${name}{${l}}`);
  });
}

/** Labels that Prometheus adds to every series. */
const OF_TARGETS = new Set(['namespace', 'job', 'instance']);
