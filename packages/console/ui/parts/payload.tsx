import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { beginningOf, hexDump, prettyJson, utf8Text } from '../show/bytes.ts';
import { formatBytes } from '../show/format.ts';
import { Tabs } from './bits.tsx';
import { Text } from './text.tsx';

/** Longer payloads are cut. */
const MOST_CHARACTERS = 100_000;
/** Of lines, and of marks for what cannot be seen. */
const MOST_ELEMENTS = 4_000;
const MOST_BYTES = 16 * 1024;

/** Bytes as JSON, text or hex. The richest form that fits comes first. */
export function Payload({ of, label }: { readonly of: Uint8Array; readonly label: string }): VNode {
  const text = utf8Text(of);
  const json = text === undefined ? undefined : prettyJson(text);
  const [chosen, choose] = useState<string | undefined>(undefined);
  const forms = [...(json === undefined ? [] : ['json']), ...(text === undefined ? [] : ['text']), 'hex'];
  const form = chosen !== undefined && forms.includes(chosen) ? chosen : (forms[0] ?? 'hex');
  if (of.length === 0) return <p class="quiet">Empty.</p>;
  const whole = form === 'hex' ? hexDump(of.subarray(0, MOST_BYTES)) : ((form === 'json' ? json : text) ?? '');
  const shown = beginningOf(whole, MOST_CHARACTERS, MOST_ELEMENTS);
  const isCut = form === 'hex' ? of.length > MOST_BYTES : shown.length < whole.length;
  return (
    <>
      <Tabs
        label={`${label} as`}
        chosen={form}
        onChoose={choose}
        of={forms.map((key) => ({ key, title: key === 'json' ? 'JSON' : key === 'hex' ? 'Hex' : 'Text' }))}
      />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it */}
      <section class={form === 'hex' ? 'payload' : 'payload wrapped'} tabIndex={0} aria-label={`${label} as ${form}`}>
        <pre>
          <Lines of={shown} />
        </pre>
      </section>
      <p class="quiet small">
        {formatBytes(of.length)}
        {isCut ? '; only its beginning is shown' : ''}
      </p>
    </>
  );
}

/** Text with its line breaks; other characters that cannot be seen are marked. */
export function Lines({ of }: { readonly of: string }): VNode {
  return (
    <>
      {of.split('\n').map((line, at) => (
        <span key={at}>
          {at === 0 ? undefined : '\n'}
          <Text of={line} most={MOST_CHARACTERS} />
        </span>
      ))}
    </>
  );
}
