import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';

interface Axis {
  /** Title with the unit. */
  readonly title: string;
  readonly scale: 'log' | 'linear';
  /** Values with labels. Default: chosen by the chart. */
  readonly values?: readonly number[];
}

interface Series {
  readonly name: string;
  readonly points: readonly { readonly x: number; readonly y: number; readonly low?: number; readonly high?: number }[];
}

export interface Chart {
  readonly title: string;
  /** Lines of the subtitle. */
  readonly subtitle: readonly string[];
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly Series[];
}

const WIDTH = 600;
const HEIGHT = 320;
const FONT = 'Helvetica, Arial, "Liberation Sans", sans-serif';
const GREY = '#5b6470';
const GRID = '#e4e7eb';
/** The colours of Okabe and Ito, for people with colour vision deficiency. */
const COLOURS = ['#d55e00', '#e69f00', '#0072b2', '#009e73', '#cc79a7'];
const SHAPES = ['square', 'triangle-up', 'circle', 'diamond', 'cross'];
/** Space at both ends of a logarithmic axis, as a factor. */
const LOG_MARGIN = 1.25;
const SWEEP_MARGIN = 0.2;

/** Draws lines with points and error bars, as SVG without embedded fonts or scripts. */
export async function drawChart(chart: Chart): Promise<string> {
  const { spec } = compile(specOf(chart));
  const view = new View(parse(spec), { renderer: 'none' });
  try {
    return `${await view.toSVG()}\n`;
  } finally {
    view.finalize();
  }
}

function specOf({ title, subtitle, x, y, series }: Chart): TopLevelSpec {
  const values = series.flatMap(({ name, points }) => points.map((point) => ({ series: name, ...point })));
  const names = series.map(({ name }) => name);
  const legend = names.length > 1 ? { title: null, orient: 'top' as const, columns: names.length > 3 ? 2 : 0 } : null;
  const xs = values.map((value) => value.x);
  const scales = {
    x: x.scale === 'log' ? logScale(xs) : sweepScale(xs),
    y: y.scale === 'log' ? logScale(values.flatMap(heights)) : fromZeroScale(values.flatMap(heights)),
  };
  const xField = { field: 'x', type: 'quantitative' as const, scale: scales.x, axis: axisOf(x) };
  const colour = {
    field: 'series',
    type: 'nominal' as const,
    scale: { domain: names, range: COLOURS.slice(0, names.length) },
    legend,
  };
  const shape = { ...colour, scale: { domain: names, range: SHAPES.slice(0, names.length) } };
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    width: WIDTH,
    height: HEIGHT,
    padding: { left: 12, right: 20, top: 12, bottom: 12 },
    background: 'white',
    title: { text: title, subtitle: [...subtitle], anchor: 'start', offset: 12 },
    data: { values },
    encoding: { x: xField, color: colour },
    layer: [
      {
        transform: [{ filter: 'isValid(datum.low)' }],
        mark: { type: 'rule', strokeWidth: 1.5, opacity: 0.6 },
        encoding: { y: { ...axisField('low', y), scale: scales.y }, y2: { field: 'high' } },
      },
      {
        mark: { type: 'line', strokeWidth: 2 },
        encoding: { y: { ...axisField('y', y), scale: scales.y } },
      },
      {
        mark: { type: 'point', filled: true, size: 70, opacity: 1 },
        encoding: { y: { ...axisField('y', y), scale: scales.y }, shape },
      },
    ],
    config: {
      font: FONT,
      view: { stroke: null },
      title: { fontSize: 16, subtitleFontSize: 12.5, subtitleColor: GREY, subtitlePadding: 6 },
      axis: {
        labelFontSize: 12,
        titleFontSize: 13,
        titleFontWeight: 'normal',
        titlePadding: 10,
        gridColor: GRID,
        domainColor: GREY,
        tickColor: GREY,
        labelColor: GREY,
      },
      legend: { labelFontSize: 12.5, symbolSize: 90, symbolOpacity: 1, columnPadding: 18, labelLimit: 0 },
    },
  };
}

function heights({ y, low = y, high = y }: Series['points'][number]): number[] {
  return [y, low, high];
}

function logScale(values: readonly number[]) {
  const positive = values.filter((value) => value > 0);
  const domain = [Math.min(...positive) / LOG_MARGIN, Math.max(...positive) * LOG_MARGIN];
  return { type: 'log' as const, domain, nice: false, clamp: true };
}

function fromZeroScale(values: readonly number[]) {
  return { type: 'linear' as const, domain: [0, Math.max(...values, 0)], nice: true };
}

/** A linear scale for a few whole numbers. */
function sweepScale(values: readonly number[]) {
  const domain = [Math.min(...values) - SWEEP_MARGIN, Math.max(...values) + SWEEP_MARGIN];
  return { type: 'linear' as const, domain, nice: false, zero: false };
}

function axisField(field: string, axis: Axis) {
  return { field, type: 'quantitative' as const, axis: axisOf(axis) };
}

/** Numbers in the usual form: 0.001, 20, 5,000. Without a precision, some become 1.6e+2. */
function axisOf({ title, values }: Axis) {
  return { title, format: ',.12~g', labelOverlap: true, ...(values && { values: [...values] }) };
}
