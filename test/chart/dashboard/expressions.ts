import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../support/paths.ts';

export const dashboardFile = join(root, 'deploy/k8s/files/grafana-dashboard.json');

/** A panel as it is in the file. */
export interface FilePanel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly links?: readonly { readonly url: string }[];
  readonly targets?: readonly { readonly refId: string; readonly expr: string; readonly instant: boolean }[];
  /** Of a row that is closed. */
  readonly panels?: readonly FilePanel[];
}

/** All panels in the file, without its rows. */
export function panelsInFile(): FilePanel[] {
  const { panels } = JSON.parse(readFileSync(dashboardFile, 'utf8')) as { panels: readonly FilePanel[] };
  return panels.flatMap(({ panels: inRow = [], ...panel }) => (panel.type === 'row' ? inRow : [panel]));
}

/** An expression with what Grafana fills in when a viewer has chosen nothing. */
export const filledIn = (expression: string, job = '.*taskmaster.*', rateInterval = '1m'): string =>
  expression
    .replaceAll('$__rate_interval', rateInterval)
    .replaceAll('"$job"', `"${job}"`)
    .replace(/"\$(?:namespace|instance|queue|group)"/g, '".*"');
