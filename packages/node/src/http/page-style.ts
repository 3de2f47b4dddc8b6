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
  --warn: light-dark(#9a5b00, #f0b85a);
  --bad: light-dark(#b3261e, #ff8a80);
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.75rem clamp(1rem, 3vw, 2.5rem) 3rem; max-width: 96rem;
  background: var(--ground); color: var(--text);
  font: 0.9375rem/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
a { color: var(--accent); }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem 1rem; margin-bottom: 1.25rem; }
h1 { font-size: 1.3rem; font-weight: 650; letter-spacing: -0.01em; margin: 0; }
nav { display: flex; gap: 0.9rem; } nav a { color: var(--quiet); text-decoration: none; } nav a:hover { color: var(--text); }
nav a[aria-current] { color: var(--text); font-weight: 600; }
.facts { color: var(--quiet); margin-left: auto; }
.facts span + span::before { content: "·"; margin: 0 0.5em; }
.state {
  display: inline-flex; align-items: center; gap: 0.45em; padding: 0.15rem 0.65rem;
  border: 1px solid currentcolor; border-radius: 99px; font-size: 0.8125rem; font-weight: 600;
}
.state::before { content: ""; width: 0.5em; height: 0.5em; border-radius: 50%; background: currentcolor; }
.state.good { color: var(--good); } .state.warn { color: var(--warn); } .state.bad { color: var(--bad); }
.note {
  border: 1px solid var(--line); border-left: 4px solid var(--warn); border-radius: 8px;
  background: var(--surface); padding: 0.6rem 0.9rem; margin: 0 0 1.25rem;
}
.note.bad { border-left-color: var(--bad); }
dl { display: flex; flex-wrap: wrap; gap: 0.75rem; margin: 0 0 1.5rem; }
dl > div { flex: 1 0 8rem; min-width: max-content; background: var(--surface); border: 1px solid var(--line); border-radius: 10px; padding: 0.65rem 0.9rem; }
dt { color: var(--quiet); font-size: 0.8125rem; }
dd { margin: 0; font-size: 1.4rem; font-weight: 600; font-variant-numeric: tabular-nums; letter-spacing: -0.01em; }
dd small { font-size: 0.75rem; font-weight: 400; color: var(--quiet); letter-spacing: 0; }
form { display: flex; flex-wrap: wrap; gap: 0.5rem; margin: 0 0 0.85rem; align-items: center; }
input, button {
  font: inherit; color: inherit; background: var(--surface); border: 1px solid var(--line);
  border-radius: 8px; padding: 0.4rem 0.75rem;
}
input { min-width: min(18rem, 100%); } input.group { min-width: min(11rem, 100%); }
button { cursor: pointer; font-weight: 600; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.table { overflow-x: auto; background: var(--surface); border: 1px solid var(--line); border-radius: 10px; }
table { width: 100%; border-collapse: collapse; }
th, td { padding: 0.5rem 0.9rem; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
thead th { font-size: 0.8125rem; font-weight: 600; border-bottom: 1px solid var(--line); }
thead th { color: var(--quiet); }
thead a { color: var(--quiet); text-decoration: none; } thead a:hover { color: var(--text); }
th[aria-sort] a { color: var(--text); }
th[aria-sort="ascending"] a::after { content: " ↑"; } th[aria-sort="descending"] a::after { content: " ↓"; }
tbody tr + tr td { border-top: 1px solid var(--line); }
tbody tr:hover td { background: color-mix(in srgb, var(--accent) 6%, transparent); }
td .group { color: var(--quiet); }
td .warn { color: var(--warn); }
td.zero { color: color-mix(in srgb, var(--quiet) 60%, transparent); }
/* Only figures are on the right. */
.flow th, .flow td { text-align: left; }
.flow td:last-child { white-space: normal; overflow-wrap: anywhere; }
.empty { background: var(--surface); border: 1px solid var(--line); border-radius: 10px; padding: 2.25rem clamp(1rem, 4vw, 3rem); }
.empty h2 { margin: 0 0 0.4rem; font-size: 1.1rem; } .empty p { margin: 0 0 0.9rem; color: var(--quiet); }
pre {
  margin: 0; padding: 0.85rem 1rem; overflow-x: auto; border-radius: 8px; border: 1px solid var(--line);
  background: var(--ground); font: 0.8125rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
footer { margin-top: 1.1rem; color: var(--quiet); font-size: 0.8125rem; display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; }
.lost [data-live] { opacity: 0.45; }
.lost .state { color: var(--bad); }
#lost { display: none; } .lost #lost { display: block; }
`;
