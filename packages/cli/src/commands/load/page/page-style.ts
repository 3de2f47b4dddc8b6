/** Style of the page: fonts of the system, and light or dark like the system. */
export const pageStyle = `
:root {
  color-scheme: light dark;
  --ground: light-dark(#f6f7f9, #101418);
  --surface: light-dark(#ffffff, #181d23);
  --line: light-dark(#e1e5ea, #2a313a);
  --text: light-dark(#16202b, #e4e9ef);
  --quiet: light-dark(#5c6a79, #93a1b0);
  --accent: light-dark(#1f5fbf, #7fb0ff);
  --good: light-dark(#137a45, #55cf92);
  --bad: light-dark(#b3261e, #ff8a80);
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.75rem clamp(1rem, 3vw, 2.5rem) 3rem; max-width: 96rem;
  background: var(--ground); color: var(--text);
  font: 0.9375rem/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
header { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem 1rem; margin-bottom: 1.25rem; }
h1 { font-size: 1.3rem; font-weight: 650; letter-spacing: -0.01em; margin: 0; }
h2 { font-size: 1.02rem; font-weight: 650; margin: 0; }
body > h2 { margin: 1.75rem 0 0.6rem; }
.facts { color: var(--quiet); margin-left: auto; }
.state { padding: 0.15rem 0.7rem; border: 1px solid currentcolor; border-radius: 99px; font-size: 0.8125rem; font-weight: 600; }
.state.good { color: var(--good); } .state.bad { color: var(--bad); } .state.none { color: var(--quiet); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.75rem; margin: 0 0 1.25rem; }
dl > div, .chart, .violation, .wide { background: var(--surface); border: 1px solid var(--line); border-radius: 10px; }
dl > div { padding: 0.65rem 0.9rem; }
dt, dd.about { color: var(--quiet); font-size: 0.8125rem; }
dd { margin: 0; }
dd.value { font-size: 1.4rem; font-weight: 600; font-variant-numeric: tabular-nums; letter-spacing: -0.01em; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 36rem), 1fr)); gap: 0.9rem; }
.chart { padding: 0.85rem 0.9rem 0.6rem; min-width: 0; }
.chart:last-child:nth-child(odd) { grid-column: 1 / -1; }
.head { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0.25rem 0.8rem; margin-bottom: 0.4rem; }
.head p { margin: 0; color: var(--quiet); font-size: 0.8125rem; }
.views { margin-left: auto; display: flex; flex-wrap: wrap; gap: 0.2rem; }
.views button {
  font: inherit; font-size: 0.8125rem; color: var(--quiet); background: none; border: 1px solid transparent;
  border-radius: 6px; padding: 0.05rem 0.5rem; cursor: pointer;
}
.views button:hover { color: var(--text); }
.views button[aria-pressed="true"] { color: var(--accent); border-color: var(--line); }
.u-legend { font-size: 0.8125rem; font-variant-numeric: tabular-nums; text-align: left; }
.u-legend th { font-weight: 500; }
.u-legend .u-marker { border-radius: 2px; }
.u-select { background: light-dark(rgb(31 95 191 / 12%), rgb(127 176 255 / 18%)); }
.u-cursor-x, .u-cursor-y { border-color: var(--quiet) !important; }
.violation { border-left: 4px solid var(--bad); padding: 0.6rem 0.9rem; margin: 0 0 0.75rem; overflow-x: auto; }
.violation pre { margin: 0.4rem 0 0; font-size: 0.78rem; color: var(--quiet); }
.wide { overflow-x: auto; padding: 0.3rem 0.5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
#calls { width: 100%; }
#calls th, #calls td, #settings th, #settings td { padding: 0.3rem 0.6rem; text-align: right; }
#calls th { color: var(--quiet); font-weight: 500; font-size: 0.8125rem; }
#calls tbody tr { border-top: 1px solid var(--line); }
#calls :is(th, td):first-child, #settings :is(th, td) { text-align: left; }
#settings th { color: var(--quiet); font-weight: 500; }
details { margin-top: 1.25rem; } summary { cursor: pointer; color: var(--quiet); }
`;
