import type { FunctionComponent, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { refreshMe } from '../data/poll.ts';
import { placeStore } from '../data/route.ts';
import { type CallError, callError } from '../data/rpc.ts';
import { meStore, setToken, tokenStore } from '../data/session.ts';
import { useStore } from '../data/store.ts';
import { ClusterPage } from '../pages/cluster.tsx';
import { FlowPage } from '../pages/flow.tsx';
import { OverviewPage } from '../pages/overview.tsx';
import { QueuePage } from '../pages/queue.tsx';
import { QueuesPage } from '../pages/queues.tsx';
import { SchedulesPage } from '../pages/schedules.tsx';
import { TaskPage } from '../pages/task.tsx';
import { TopicsPage } from '../pages/topics.tsx';
import { WorkersPage } from '../pages/workers.tsx';
import { Text, visible } from '../parts/text.tsx';
import { Toasts } from '../parts/toasts.tsx';
import type { PageProps } from '../show/place.ts';
import { Banner, Live } from './freshness.tsx';
import { Help, useKeys } from './keys.tsx';
import { Login } from './login.tsx';

interface Page {
  readonly name: string;
  readonly title: string;
  readonly component: FunctionComponent<PageProps>;
  /** The key behind `g`. Undefined: it is not in the menu. */
  readonly key?: string;
  /** The page in the menu that it belongs to. */
  readonly below?: string;
}

const pages: readonly Page[] = [
  { name: 'overview', title: 'Overview', component: OverviewPage, key: 'o' },
  { name: 'queues', title: 'Queues', component: QueuesPage, key: 'q' },
  { name: 'workers', title: 'Workers', component: WorkersPage, key: 'w' },
  { name: 'schedules', title: 'Schedules', component: SchedulesPage, key: 's' },
  { name: 'topics', title: 'Topics', component: TopicsPage, key: 't' },
  { name: 'flow', title: 'Flows', component: FlowPage, key: 'f' },
  { name: 'cluster', title: 'Cluster', component: ClusterPage, key: 'c' },
  { name: 'queue', title: 'Queue', component: QueuePage, below: 'queues' },
  { name: 'task', title: 'Task', component: TaskPage, below: 'queues' },
];

const menu = pages.filter(({ key }) => key !== undefined);

export function Shell(): VNode {
  const place = useStore(placeStore);
  const me = useStore(meStore);
  useStore(tokenStore);
  const [error, setError] = useState<CallError | undefined>(undefined);
  const [isHelpOpen, setHelpOpen] = useState(false);
  useKeys(menu, () => setHelpOpen((open) => !open));

  useEffect(() => {
    if (me !== undefined) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = (): void => {
      refreshMe(undefined, true).then(
        () => setError(undefined),
        (thrown: unknown) => {
          setError(callError(thrown));
          timer = setTimeout(ask, 2_000);
        },
      );
    };
    ask();
    return () => clearTimeout(timer);
  }, [me]);

  const page = pages.find(({ name }) => name === place.page) ?? pages[0];
  const about = place.names.at(-1);
  useEffect(() => {
    document.title = `${about === undefined ? (page?.title ?? '') : visible(about.slice(0, 80).toWellFormed())} · TaskMaster`;
  }, [page, about]);
  useEffect(() => {
    scrollTo({ top: 0 });
  }, [place.page, place.names.join('/')]);

  const needsLogin = me?.identified === false;
  if (me === undefined) return <Waiting error={error} />;
  if (needsLogin) return <Login me={me} />;
  if (page === undefined) return <Waiting error={undefined} />;
  const Content = page.component;
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to the content
      </button>
      <header class="top">
        <a class="brand" href="#/overview">
          <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
            <rect width="32" height="32" rx="7" />
            <path d="M8 10h16M8 16h11M8 22h6" />
            <circle cx="23" cy="22" r="3" />
          </svg>
          TaskMaster
        </a>
        <nav aria-label="Pages">
          {menu.map(({ name, title }) => (
            <a key={name} href={`#/${name}`} aria-current={name === (page.below ?? page.name) ? 'page' : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <div class="session">
          <Live />
          {me.server === undefined ? undefined : (
            <span
              class="quiet from-tablet"
              title={`The ${me.server.role} that answers this page; version ${me.server.version}`}
            >
              {me.server.role} <Text of={me.server.name} most={40} />
            </span>
          )}
          {me.principal === '' ? undefined : (
            <span class="quiet from-tablet">
              <Text of={me.principal} most={40} />
            </span>
          )}
          {tokenStore.value === '' ? undefined : (
            <button type="button" class="plain" onClick={logOut}>
              Log out
            </button>
          )}
          <button type="button" class="plain" aria-label="Help" title="Keys (?)" onClick={() => setHelpOpen(true)}>
            ?
          </button>
        </div>
      </header>
      <Banner />
      <main id="main" tabIndex={-1}>
        <Content key={`${place.page}/${place.names.join('/')}`} place={place} />
      </main>
      <Toasts />
      {isHelpOpen ? <Help menu={menu} onClose={() => setHelpOpen(false)} /> : undefined}
    </>
  );
}

function logOut(): void {
  setToken('');
  meStore.set(undefined);
}

function Waiting({ error }: { readonly error: CallError | undefined }): VNode {
  return (
    <main class="login">
      <h1>TaskMaster</h1>
      {error === undefined ? (
        <p class="quiet">Loading…</p>
      ) : (
        <p class="refused" role="alert">
          {error.message} [{error.reason}]. Trying again every 2 s.
        </p>
      )}
    </main>
  );
}
