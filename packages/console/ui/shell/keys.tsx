import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { go } from '../data/route.ts';
import { Dialog } from '../parts/action.tsx';
import { moveRow } from '../parts/table.tsx';

interface MenuItem {
  readonly name: string;
  readonly title: string;
  readonly key?: string;
}

/** A key behind `g` counts for this time, in ms. */
const SECOND_KEY_MS = 1_500;

/** Lets the user reach pages, rows and the search with keys. */
export function useKeys(menu: readonly MenuItem[], onHelp: () => void): void {
  const help = useRef(onHelp);
  help.current = onHelp;
  useEffect(() => {
    let goUntil = 0;
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const target = event.target as HTMLElement;
      if (target.closest('dialog') !== null) return;
      if (target.closest('input, textarea, select') !== null) {
        if (event.key === 'Escape') target.blur();
        return;
      }
      const page = Date.now() < goUntil ? menu.find(({ key }) => key === event.key) : undefined;
      goUntil = 0;
      if (page !== undefined) go(`#/${page.name}`);
      else if (event.key === 'g') goUntil = Date.now() + SECOND_KEY_MS;
      else if (event.key === '?') help.current();
      else if (event.key === '/') {
        const search = document.querySelector<HTMLInputElement>('[data-search]');
        if (search === null) return;
        search.focus();
        search.select();
      } else if (event.key === 'j' || (event.key === 'ArrowDown' && isInRow(target))) {
        if (!moveRow(1)) return;
      } else if (event.key === 'k' || (event.key === 'ArrowUp' && isInRow(target))) {
        if (!moveRow(-1)) return;
      } else return;
      event.preventDefault();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, [menu]);
}

const isInRow = (target: HTMLElement): boolean => target.closest('tr[data-at]') !== null;

export function Help({ menu, onClose }: { readonly menu: readonly MenuItem[]; readonly onClose: () => void }): VNode {
  const keys: readonly (readonly [string, string])[] = [
    ['/', 'Search'],
    ['j k', 'Next and previous row; the arrows do the same within a table'],
    ['Enter', 'Open the row'],
    ['Esc', 'Leave a field, close a dialog'],
    ...menu.map(({ key, title }) => [`g ${key}`, title] as const),
    ['?', 'This help'],
  ];
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {keys.map(([key, what]) => (
          <div key={key}>
            <dt>
              {key.split(' ').map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <div class="buttons">
        <button type="button" class="primary" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
