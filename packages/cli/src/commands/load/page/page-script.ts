/** Height of a chart, in pixels. */
const HEIGHT = 260;

/** Draws the page from its data. Texts of the report become text nodes. The colours are those of Okabe and Ito. */
export const pageScript = `
const data = JSON.parse(document.getElementById('data').textContent);
const dark = matchMedia('(prefers-color-scheme: dark)');
const COLOURS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#d55e00', '#56b4e9', '#999999', '#b8a800'];
const ON_DARK = ['#4fa3e3', '#e69f00', '#2fc598', '#de94bd', '#f0803c', '#9bd3f5', '#b5b5b5', '#d9cb2e'];

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function colour(name) {
  return dark.matches
    ? { text: '#93a1b0', grid: '#2a313a', kill: 'rgb(255 138 128 / 55%)', band: 'rgb(255 138 128 / 16%)' }[name]
    : { text: '#5c6a79', grid: '#e9ecf0', kill: 'rgb(179 38 30 / 55%)', band: 'rgb(179 38 30 / 10%)' }[name];
}

const plain = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const number = (value) => (Math.abs(value) >= 1000 ? whole : plain).format(value);
const milliseconds = (value) => (value < 1000 ? plain.format(value) + ' ms' : plain.format(value / 1000) + ' s');
const valueText = (unit) => (unit === 'ms' ? milliseconds : unit === 'per second' ? (value) => (value === 0 ? '0' : number(value) + '/s') : number);

function secondsText(seconds) {
  const minutes = Math.floor(seconds / 60);
  return minutes === 0 ? plain.format(seconds) + ' s' : minutes + ':' + String(Math.floor(seconds % 60)).padStart(2, '0');
}

function percentText(nines) {
  const decimals = Math.max(0, Math.ceil(nines) - 2);
  return (100 * (1 - 10 ** -nines)).toFixed(nines === 0 ? 0 : decimals + (Number.isInteger(nines) ? 0 : 1)) + ' %';
}

/** Marks the times in which the command of the load ran. */
function drawKills(plot) {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const { from, to } of data.kills) {
    const left = Math.max(bbox.left, plot.valToPos(from, 'x', true));
    const right = Math.min(bbox.left + bbox.width, plot.valToPos(to, 'x', true));
    if (right < bbox.left || left > bbox.left + bbox.width) continue;
    ctx.fillStyle = colour('band');
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
    ctx.fillStyle = colour('kill');
    ctx.fillRect(left, bbox.top, devicePixelRatio, bbox.height);
  }
  ctx.restore();
}

function axis(more) {
  const grid = { stroke: colour('grid'), width: 1 };
  return { stroke: colour('text'), grid, ticks: grid, font: '12px system-ui, sans-serif', ...more };
}

function optionsOf(chart, lines, width) {
  const shown = valueText(chart.unit);
  const isTime = chart.xAxis === 'time';
  const xText = isTime ? secondsText : percentText;
  return {
    width,
    height: ${HEIGHT},
    cursor: { sync: isTime ? { key: 'time' } : undefined, focus: { prox: 24 }, points: { size: 6 } },
    focus: { alpha: 0.35 },
    scales: { x: { time: false }, y: { distr: chart.isLogarithmic ? 3 : 1, range: chart.isLogarithmic ? undefined : fromZero } },
    axes: [
      axis({ values: (_plot, ticks) => ticks.map(xText), space: 70, ...(isTime ? {} : { incrs: [1] }) }),
      axis({ values: (_plot, ticks) => ticks.map((tick) => (tick === null ? '' : shown(tick))), size: 72 }),
    ],
    series: [
      { label: isTime ? 'time' : 'part', value: (_plot, value) => (value === null ? '–' : xText(value)) },
      ...lines.map(({ name }, index) => ({
        label: name,
        stroke: (dark.matches ? ON_DARK : COLOURS)[index % COLOURS.length],
        width: 1.75,
        spanGaps: false,
        points: { show: chart.x.length < 3 },
        value: (_plot, value) => (value === null || value === undefined ? '–' : shown(value)),
      })),
    ],
    hooks: isTime ? { drawClear: [drawKills] } : {},
  };
}

const fromZero = (_plot, _low, high) => [0, high > 0 ? high * 1.08 : 1];

function drawChart(chart, parent) {
  const box = parent.appendChild(element('section', undefined, 'chart'));
  const head = box.appendChild(element('div', undefined, 'head'));
  head.append(element('h2', chart.title), element('p', chart.note));
  const buttons = head.appendChild(element('div', undefined, 'views'));
  const place = box.appendChild(element('div'));
  let plot;
  const show = (view) => {
    plot?.destroy();
    const { lines } = chart.views[view];
    // A logarithmic axis has no zero.
    const values = lines.map((line) => line.values.map((value) => (chart.isLogarithmic && value === 0 ? null : value)));
    plot = new uPlot(optionsOf(chart, lines, place.clientWidth), [chart.x, ...values], place);
    [...buttons.children].forEach((button, at) => button.setAttribute('aria-pressed', String(at === view)));
    shown = view;
  };
  let shown = 0;
  if (chart.views.length > 1) {
    chart.views.forEach(({ name }, view) => {
      const button = buttons.appendChild(element('button', name));
      button.type = 'button';
      button.addEventListener('click', () => show(view));
    });
  }
  show(0);
  dark.addEventListener('change', () => show(shown));
  new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: ${HEIGHT} })).observe(place);
}

function row(tag, cells) {
  const made = element('tr');
  made.append(...cells.map((cell) => element(tag, cell)));
  return made;
}

function drawPage() {
  document.getElementById('subtitle').textContent = data.subtitle;
  const verdict = document.getElementById('verdict');
  verdict.textContent = data.verdict.text;
  verdict.classList.add(data.verdict.state);
  for (const { name, value, about } of data.figures) {
    const figure = document.getElementById('figures').appendChild(element('div'));
    figure.append(element('dt', name), element('dd', value, 'value'), element('dd', about, 'about'));
  }
  for (const { message, history } of data.violations) {
    const box = document.getElementById('violations').appendChild(element('div', message, 'violation'));
    if (history) box.append(element('pre', history));
  }
  const calls = document.getElementById('calls');
  calls.appendChild(element('thead')).append(row('th', data.table.titles));
  calls.appendChild(element('tbody')).append(...data.table.rows.map((cells) => row('td', cells)));
  for (const [name, value] of data.settings) {
    const line = document.getElementById('settings').appendChild(element('tr'));
    line.append(element('th', name), element('td', value));
  }
  const charts = document.getElementById('charts');
  for (const chart of data.charts) drawChart(chart, charts);
}

drawPage();
`;
