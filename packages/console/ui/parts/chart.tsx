import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { formatTime } from '../show/format.ts';

interface Series {
  readonly label: string;
  /** The name of a CSS variable with its colour. */
  readonly colour: string;
  /** One for each instant. Null: it is not known. */
  readonly values: readonly (number | null)[];
}

export interface ChartProps {
  readonly title: string;
  /** Instants, in ms since 1970, ascending. */
  readonly at: readonly number[];
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  /** Whether the values are whole numbers. */
  readonly isCount?: boolean;
  /** What the chart covers. */
  readonly note?: string;
}

const HEIGHT = 150;
/** Steps between the marks of the axes. Smaller ones would have the same text. */
const RATE_STEPS = [-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((power) =>
  [1, 2, 5].map((digit) => Number(`${digit}e${power}`)),
);
const COUNT_STEPS = RATE_STEPS.filter((step) => step >= 1);
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200];

/** A chart that has just begun covers this time. */
const LEAST_SECONDS = 60;

const dark = matchMedia('(prefers-color-scheme: dark)');
const css = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A single point would have no scale, so an unknown one comes before it. */
function dataOf(at: readonly number[], series: readonly Series[]): uPlot.AlignedData {
  const seconds = at.map((ms) => ms / 1_000);
  const values = series.map((one) => [...one.values]);
  const [only] = seconds;
  if (seconds.length !== 1 || only === undefined) return [seconds, ...values];
  return [[only - LEAST_SECONDS, only], ...values.map(([value = null]) => [null, value])];
}

/** A time of day, with seconds if marks are closer than a minute. */
const formatTick = (seconds: number, step: number): string =>
  formatTime(seconds * 1_000, seconds * 1_000).slice(0, step < 60 ? undefined : 5);

/** A chart over time, with its latest values, or those under the pointer, beside its title. */
export function Chart({ title, at, series, format, isCount = false, note }: ChartProps): VNode {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [hovered, setHovered] = useState<number | undefined>(undefined);
  const [scheme, setScheme] = useState(dark.matches);
  const names = series.map(({ label }) => label).join();
  const data = dataOf(at, series);
  const latest = useRef({ data, format });
  latest.current = { data, format };

  useEffect(() => {
    const onScheme = (): void => setScheme(dark.matches);
    dark.addEventListener('change', onScheme);
    return () => dark.removeEventListener('change', onScheme);
  }, []);

  useEffect(() => {
    const parent = box.current;
    if (parent === null) return;
    const axis = { stroke: css('--quiet'), grid: { stroke: css('--line'), width: 1 }, ticks: { show: false } };
    const font = `11px ${getComputedStyle(parent).fontFamily}`;
    const made = new uPlot(
      {
        width: Math.max(120, parent.clientWidth),
        height: HEIGHT,
        padding: [8, 28, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { size: 6 }, drag: { setScale: false, x: false, y: false } },
        scales: {
          x: { range: (_, min, max) => [Math.min(min, max - LEAST_SECONDS), max] },
          y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] },
        },
        axes: [
          {
            ...axis,
            font,
            size: 26,
            space: 62,
            incrs: TIME_STEPS,
            values: (_, ticks, __, ___, step) => ticks.map((tick) => formatTick(tick, step)),
          },
          {
            ...axis,
            font,
            size: 52,
            space: 34,
            incrs: isCount ? COUNT_STEPS : RATE_STEPS,
            values: (_, ticks) => ticks.map((tick) => latest.current.format(tick)),
          },
        ],
        series: [
          {},
          ...series.map(({ label, colour }, nth) => ({
            label,
            stroke: css(colour),
            width: 1.5,
            points: { show: false },
            ...(nth === 0 && { fill: `color-mix(in srgb, ${css(colour)} 12%, transparent)` }),
          })),
        ],
        hooks: { setCursor: [(u: uPlot) => setHovered(u.cursor.idx ?? undefined)] },
      },
      latest.current.data,
      parent,
    );
    plot.current = made;
    const watcher = new ResizeObserver(() =>
      made.setSize({ width: Math.max(120, parent.clientWidth), height: HEIGHT }),
    );
    watcher.observe(parent);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [names, scheme]);

  useEffect(() => plot.current?.setData(latest.current.data), [at, series]);

  const shown = hovered ?? at.length - 1;
  const values = series.map(({ label, colour, values: all }) => ({ label, colour, value: all[shown] ?? undefined }));
  const text = ({ label, value }: { label: string; value: number | undefined }): string =>
    `${label} ${value === undefined ? 'unknown' : format(value)}`;
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        {values.map(({ label, colour, value }) => (
          <span class="key" key={label}>
            <i class={`dot ${colour.slice(2)}`} />
            {label} <b>{value === undefined ? '–' : format(value)}</b>
          </span>
        ))}
        <span class="quiet end">
          {hovered !== undefined && at[hovered] !== undefined ? formatTime(at[hovered], Date.now()) : note}
        </span>
      </figcaption>
      <div ref={box} role="img" aria-label={`${title}: ${values.map(text).join(', ')}`} />
    </figure>
  );
}

/** A small line without axes. Null values are left out. */
export function Spark({ values, label }: { readonly values: readonly number[]; readonly label: string }): VNode {
  const width = 84;
  const height = 20;
  const most = values.reduce((max, value) => Math.max(max, value), 0) || 1;
  const step = width / Math.max(1, values.length - 1);
  const points = values.map(
    (value, at) => `${(at * step).toFixed(1)},${(height - 1 - (value / most) * (height - 3)).toFixed(1)}`,
  );
  return (
    <svg class="spark" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      <title>{label}</title>
      {values.length < 2 ? undefined : <polyline points={points.join(' ')} />}
    </svg>
  );
}
