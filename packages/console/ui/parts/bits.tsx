import type { ComponentChildren, VNode } from 'preact';
import type { CallError } from '../data/rpc.ts';
import type { Urgency } from '../show/trouble.ts';
import { refusalText } from './action.tsx';

export interface Tile {
  readonly title: string;
  readonly value: ComponentChildren;
  readonly note?: ComponentChildren;
  readonly tone?: 'bad' | 'warn' | 'good' | undefined;
}

/** Figures in a row. */
export function Tiles({ of }: { readonly of: readonly Tile[] }): VNode {
  return (
    <dl class="tiles">
      {of.map(({ title, value, note, tone }) => (
        <div key={title} class={tone ?? ''}>
          <dt>{title}</dt>
          <dd>
            {value}
            {note === undefined ? undefined : <small>{note}</small>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

export const TONES: Readonly<Record<Urgency, 'bad' | 'warn' | 'info' | 'good'>> = {
  3: 'bad',
  2: 'warn',
  1: 'info',
  0: 'good',
};

export function Badge({
  tone,
  children,
}: {
  readonly tone: 'bad' | 'warn' | 'info' | 'good' | 'quiet';
  readonly children: ComponentChildren;
}): VNode {
  return <span class={`badge ${tone}`}>{children}</span>;
}

/** A part of a page with a title. */
export function Section(props: {
  readonly title: string;
  readonly side?: ComponentChildren;
  readonly children: ComponentChildren;
}): VNode {
  return (
    <section aria-label={props.title}>
      <div class="head">
        <h2>{props.title}</h2>
        {props.side}
      </div>
      {props.children}
    </section>
  );
}

/** What stands on a page before its data is there, or instead of it. */
export function Pending({ error }: { readonly error: CallError | undefined }): VNode {
  if (error === undefined) return <p class="empty">Loading…</p>;
  return (
    <div class="empty" role="alert">
      <h2>{error.reason === 'PERMISSION_DENIED' ? 'You may not see this' : 'There is nothing to show'}</h2>
      <p>{refusalText(error)}</p>
    </div>
  );
}

/** Names the nodes whose data is missing. */
export function Unreachable(props: {
  readonly of: readonly { readonly name: string; readonly address: string; readonly problem: string }[];
}): VNode | null {
  if (props.of.length === 0) return null;
  const names = props.of.map(({ name, address, problem }) => `${name || address || 'a node'} (${problem})`);
  return (
    <p class="note bad" role="alert">
      <strong>Not answering:</strong> {names.join(', ')}. What only {props.of.length === 1 ? 'it holds' : 'they hold'}{' '}
      is missing here.
    </p>
  );
}

export interface Tab {
  readonly key: string;
  readonly title: string;
  readonly count?: string | undefined;
}

export function Tabs(props: {
  readonly label: string;
  readonly of: readonly Tab[];
  readonly chosen: string;
  readonly onChoose: (key: string) => void;
}): VNode {
  const move = (event: KeyboardEvent): void => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (by === 0) return;
    const at = props.of.findIndex(({ key }) => key === props.chosen);
    const next = props.of[(at + by + props.of.length) % props.of.length];
    if (next === undefined) return;
    event.preventDefault();
    props.onChoose(next.key);
    const tabs = (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('[role=tab]');
    tabs[props.of.indexOf(next)]?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={props.label} onKeyDown={move}>
      {props.of.map(({ key, title, count }) => (
        <button
          key={key}
          type="button"
          role="tab"
          aria-selected={key === props.chosen}
          tabIndex={key === props.chosen ? 0 : -1}
          onClick={() => props.onChoose(key)}
        >
          {title}
          {count === undefined ? undefined : <span class="count">{count}</span>}
        </button>
      ))}
    </div>
  );
}

/** Names with values. Values that are undefined are left out. */
export function Facts({ of }: { readonly of: readonly (readonly [string, ComponentChildren])[] }): VNode {
  return (
    <dl class="facts">
      {of
        .filter(([, value]) => value !== undefined && value !== '')
        .map(([title, value]) => (
          <div key={title}>
            <dt>{title}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
