import { parseQueueName } from '@taskmaster/proto/messages';
import type { VNode } from 'preact';
import { serverNow } from '../data/session.ts';
import { formatAgo, formatTime } from '../show/format.ts';

/** Control characters, changes of direction, and what else cannot be seen. */
const UNSEEN = /([\p{C}\p{Zl}\p{Zp}]+)/u;

const NAMES: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** The escapes of a run of such characters. */
const escapesOf = (run: string): string =>
  Array.from(run, (char) => NAMES[char] ?? `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`).join('');

/** The text with escapes for what cannot be seen. */
export const visible = (text: string): string =>
  text
    .split(UNSEEN)
    .map((part, at) => (at % 2 ? escapesOf(part) : part))
    .join('');

/** Text of users: what cannot be seen is marked, and its direction does not change that of the page. */
export function Text({ of, most = 4_000 }: { readonly of: string; readonly most?: number }): VNode {
  const cut = of.length > most ? `${of.slice(0, most).toWellFormed()}…` : of;
  const parts = cut.split(UNSEEN);
  return (
    <bdi>
      {parts.map((part, at) =>
        at % 2 === 0 ? (
          part
        ) : (
          <span class="unseen" key={at}>
            {escapesOf(part)}
          </span>
        ),
      )}
    </bdi>
  );
}

/** Longer names are cut in tables. Their tooltip is whole. */
const LONG_NAME = 120;

/** The full name of a queue, schedule or topic, with its group in a quieter colour. */
export function Name({ of, whole = false }: { readonly of: string; readonly whole?: boolean }): VNode {
  const { group, name } = parseQueueName(of);
  const most = whole ? 4_000 : LONG_NAME;
  return (
    <span class={whole ? 'name whole' : 'name'} title={visible(of)}>
      {group === '' ? undefined : (
        <span class="group">
          <Text of={group} most={most} />#
        </span>
      )}
      <Text of={name} most={most} />
    </span>
  );
}

/** An instant: how long ago, and when exactly in its tooltip. 0: a dash. */
export function When({ at }: { readonly at: number | undefined }): VNode {
  if (at === undefined || at === 0) return <span class="quiet">–</span>;
  const now = serverNow();
  return (
    <time dateTime={new Date(at).toISOString()} title={`${formatTime(at, 0)} (${new Date(at).toISOString()})`}>
      {formatAgo(at, now)}
    </time>
  );
}
