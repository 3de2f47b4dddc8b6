import * as common from '@grafana/grafana-foundation-sdk/common';
import * as grafana from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus';
import * as stat from '@grafana/grafana-foundation-sdk/stat';
import * as statetimeline from '@grafana/grafana-foundation-sdk/statetimeline';
import * as timeseries from '@grafana/grafana-foundation-sdk/timeseries';
import type { Panel } from './panel.ts';
import { rowsOf } from './rows.ts';

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana fills it in.
const DATA_SOURCE = { type: 'prometheus', uid: '${datasource}' };
// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana fills it in, as it was written.
const DOCUMENTS = '${documents:raw}';

/** The variables by which a viewer chooses, with what Prometheus is asked for their values. */
const CHOICES = [
  ['namespace', 'Namespace', 'label_values(taskmaster_build_info, namespace)'],
  ['job', 'Job', 'label_values(taskmaster_build_info{namespace=~"$namespace"}, job)'],
  ['instance', 'Instance', 'label_values(taskmaster_build_info{namespace=~"$namespace",job=~"$job"}, instance)'],
  ['queue', 'Queue', 'label_values(taskmaster_tasks{namespace=~"$namespace",job=~"$job"}, queue)'],
  ['group', 'Group with a quota', 'label_values(taskmaster_group_quota{namespace=~"$namespace",job=~"$job"}, group)'],
] as const;

const variable = ([name, label, query]: (typeof CHOICES)[number]): grafana.QueryVariableBuilder => {
  const built = new grafana.QueryVariableBuilder(name)
    .label(label)
    .query({ query, refId: name })
    .definition(query)
    .datasource(DATA_SOURCE)
    .refresh(grafana.VariableRefresh.OnTimeRangeChanged)
    .sort(grafana.VariableSort.AlphabeticalAsc)
    .multi(true)
    .includeAll(true)
    .current({ selected: true, text: ['All'], value: ['$__all'] });
  // Not of jobs: a target that is down must be one of TaskMaster. A label may be missing otherwise.
  return name === 'job' ? built : built.allValue('.*');
};

const link = (title: string, page: string): grafana.DashboardLinkBuilder =>
  new grafana.DashboardLinkBuilder(title)
    .type(grafana.DashboardLinkType.Link)
    .url(`${DOCUMENTS}docs/operate/${page}`)
    .targetBlank(true);

const targets = ({ queries, shown }: Panel): DataqueryBuilder[] =>
  Object.entries(queries).map(([legend, expr], index) => {
    const built = new DataqueryBuilder()
      .refId(String.fromCharCode('A'.charCodeAt(0) + index))
      .datasource(DATA_SOURCE)
      .expr(expr)
      .legendFormat(legend);
    // A number is the one of now: the last one in the range may be hours old.
    return shown === 'number' ? built.instant() : built.range();
  });

const colours = (thresholds: NonNullable<Panel['thresholds']>): grafana.ThresholdsConfigBuilder =>
  new grafana.ThresholdsConfigBuilder()
    .mode(grafana.ThresholdsMode.Absolute)
    .steps(thresholds.map(([color, value]) => ({ color, value })));

const byThresholds = (): grafana.FieldColorBuilder =>
  new grafana.FieldColorBuilder().mode(grafana.FieldColorModeId.Thresholds);

const legend = (): common.VizLegendOptionsBuilder =>
  new common.VizLegendOptionsBuilder()
    .displayMode(common.LegendDisplayMode.List)
    .placement(common.LegendPlacement.Bottom)
    .showLegend(true);

const tooltip = (): common.VizTooltipOptionsBuilder =>
  new common.VizTooltipOptionsBuilder().mode(common.TooltipDisplayMode.Multi).sort(common.SortOrder.Descending);

const kinds = {
  number: () =>
    new stat.PanelBuilder()
      .span(3)
      .height(4)
      .colorScheme(byThresholds())
      .colorMode(common.BigValueColorMode.Background)
      .graphMode(common.BigValueGraphMode.None)
      .reduceOptions(new common.ReduceDataOptionsBuilder().calcs(['lastNotNull'])),
  lines: () =>
    new timeseries.PanelBuilder().span(8).height(8).min(0).fillOpacity(0).legend(legend()).tooltip(tooltip()),
  stack: () =>
    new timeseries.PanelBuilder()
      .span(8)
      .height(8)
      .min(0)
      .fillOpacity(25)
      .stacking(new common.StackingConfigBuilder().mode(common.StackingMode.Normal))
      .legend(legend())
      .tooltip(tooltip()),
  states: () =>
    new statetimeline.PanelBuilder()
      .span(24)
      .height(7)
      .colorScheme(byThresholds())
      .showValue(common.VisibilityMode.Never)
      .legend(legend().showLegend(false))
      .tooltip(tooltip()),
};

function built(panel: Panel, id: number): grafana.Panel {
  const { title, description, shown, unit, thresholds = [['green', null]], alerts = [], none, decimals } = panel;
  const builder = kinds[shown]();
  builder.title(title).description(description).datasource(DATA_SOURCE).unit(unit).thresholds(colours(thresholds));
  builder.targets(targets(panel)).id(id);
  builder.links(alerts.map((alert) => link(`What to do: ${alert}`, `alerts.md#${alert.toLowerCase()}`)));
  if (none !== undefined) builder.noValue(none);
  if (decimals !== undefined) builder.decimals(decimals);
  if (shown === 'lines' && panel.thresholds !== undefined && builder instanceof timeseries.PanelBuilder) {
    builder.thresholdsStyle(
      new common.GraphThresholdsStyleConfigBuilder().mode(common.GraphThresholdsStyleMode.Dashed),
    );
  }
  return builder.build();
}

/** Where the documents are, until somebody says it in the field of the dashboard or in the values of the chart. */
export const DOCUMENTS_PLACEHOLDER = 'https://wiki.example.com/taskmaster/';

/** The dashboard in the classic model of Grafana, which all its versions import. `alerts`: the names of all alert rules. */
export function dashboardOf(alerts: readonly string[]): grafana.Dashboard {
  const builder = new grafana.DashboardBuilder('TaskMaster')
    .uid('taskmaster')
    .description(
      'Nodes, proxies and queues of TaskMaster: what needs attention first, then work, calls, machines and the cluster.',
    )
    .tags(['taskmaster'])
    .tooltip(grafana.DashboardCursorSync.Crosshair)
    .time({ from: 'now-3h', to: 'now' })
    .refresh('30s')
    .link(link('Alerts', 'alerts.md'))
    .link(link('Troubleshooting', 'troubleshooting.md'))
    .withVariable(new grafana.DatasourceVariableBuilder('datasource').label('Data source').type('prometheus'));
  for (const choice of CHOICES) builder.withVariable(variable(choice));
  builder.withVariable(
    new grafana.TextBoxVariableBuilder('documents')
      .label('Documents')
      .description('The address in front of docs/, for the links to what to do.')
      .defaultValue(DOCUMENTS_PLACEHOLDER),
  );
  const dashboard = builder.build();
  dashboard.panels = [];
  let id = 0;
  let y = 0;
  for (const { title, panels, collapsed = false } of rowsOf(alerts)) {
    const row = new grafana.RowBuilder(title).collapsed(collapsed).id(++id).gridPos({ x: 0, y, w: 24, h: 1 }).build();
    const inRow = panels.map((panel) => built(panel, ++id));
    y = place(inRow, y + 1);
    if (collapsed) row.panels = inRow;
    dashboard.panels.push(row, ...(collapsed ? [] : inRow));
  }
  return dashboard;
}

/** Places panels from left to right, in lines below each other. Returns where the next line begins. */
function place(panels: readonly grafana.Panel[], top: number): number {
  let x = 0;
  let y = top;
  let height = 0;
  for (const { gridPos } of panels) {
    if (gridPos === undefined) continue;
    if (x + gridPos.w > 24) {
      y += height;
      x = height = 0;
    }
    Object.assign(gridPos, { x, y });
    x += gridPos.w;
    height = Math.max(height, gridPos.h);
  }
  return y + height;
}
