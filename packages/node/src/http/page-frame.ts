import { createHash } from 'node:crypto';
import { escapeControls, type Error as WireError } from '@taskmaster/proto';
import type { CallerAccess } from '@taskmaster/server/access';
import { explainHealth, httpStatus, type NodeHealth, type Reply } from '@taskmaster/server/http';
import { formatDuration } from './format.ts';
import { type Html, html, trusted } from './html.ts';
import { pageScript } from './page-script.ts';
import { pageStyle } from './page-style.ts';

export interface NodeFacts {
  readonly version: string;
  /** `host:port`; undefined until gRPC listens. */
  readonly grpcAddress: string | undefined;
  readonly uptimeMs: number;
}

/** What every page is made from. */
export interface PageOptions {
  readonly access: CallerAccess;
  readonly query: URLSearchParams;
  readonly health: NodeHealth;
  readonly facts: NodeFacts;
  readonly toWireError: (thrown: unknown) => WireError;
  /** The HTTP address of the member with this gRPC address. Undefined: it is not known. */
  readonly httpOf: (rpcAddress: string) => string | undefined;
}

/** The parts of a page that differ. */
export interface PageParts {
  readonly title: 'Queues' | 'Schedules' | 'Flows';
  readonly status: number;
  /** Figures above the filter. */
  readonly summary?: Html | undefined;
  readonly filter: Html;
  readonly content: Html;
}

const pages: readonly (readonly [title: PageParts['title'], path: string])[] = [
  ['Queues', '/'],
  ['Schedules', '/schedules'],
  ['Flows', '/flow'],
];

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Allows only the page's own style and script, and requests to this server. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src ${hashOf(pageStyle)}`,
  `script-src ${hashOf(pageScript)}`,
  'img-src data:',
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** A page with its header. It refreshes its header, its summary and its content. */
export function pageReply(options: PageOptions, { title, status, summary, filter, content }: PageParts): Reply {
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · TaskMaster</title>
<link rel="icon" href="data:,">
<noscript><meta http-equiv="refresh" content="5"></noscript>
<style>${trusted(pageStyle)}</style>
</head>
<body>
<p class="note bad" id="lost" role="alert">The node does not answer. These figures are its last ones.</p>
<div id="summary" data-live>${header(options, title)}${summary}</div>
${filter}
<main id="content" data-live>${content}</main>
<script>${trusted(pageScript)}</script>
</body>
</html>
`;
  return {
    status,
    type: 'text/html; charset=utf-8',
    body: page.text,
    headers: { 'content-security-policy': CONTENT_SECURITY_POLICY },
  };
}

/** What a page shows if its figures cannot be read. `path`: its own. */
export function refusedPart(
  thrown: unknown,
  { toWireError, httpOf, query }: PageOptions,
  path: string,
): Pick<PageParts, 'status' | 'content'> {
  const error = toWireError(thrown);
  const { holder } = error.metadata;
  const other = holder === undefined ? undefined : httpOf(holder);
  // Without a scheme: members serve HTTPS alike.
  const link = other && html` <a href="//${other}${path}?${query.toString()}">Open this page at ${other}</a>`;
  const content = html`<p class="note bad" role="alert">${escapeControls(error.message)} <small>(${error.reason})</small>${link}</p>`;
  return { status: httpStatus(error), content };
}

const looks: Readonly<Record<NodeHealth['kind'], string>> = {
  starting: 'warn',
  joining: 'warn',
  waiting: 'warn',
  skewed: 'bad',
  serving: 'good',
  full: 'warn',
  failed: 'bad',
  stopping: 'warn',
};

function header({ health, facts }: PageOptions, title: PageParts['title']): Html {
  const look = looks[health.kind];
  const note = html`<p class="note ${look}" role="status">${sentence(explainHealth(health))}</p>`;
  const links = pages.map(([name, path]) => {
    const current = name === title ? html` aria-current="page"` : undefined;
    return html`<a id="page-${name}" href="${path}"${current}>${name}</a>`;
  });
  return html`<header>
<h1>TaskMaster</h1>
<nav>${links}</nav>
<span class="state ${look}" title="${sentence(explainHealth(health))}">${health.kind}</span>
<span class="facts"><span>${facts.grpcAddress ?? 'not listening yet'}</span><span>up ${formatDuration(facts.uptimeMs)}</span><span>version ${facts.version}</span></span>
</header>${look === 'good' ? undefined : note}`;
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
