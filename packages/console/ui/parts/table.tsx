import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface Column<R> {
  readonly key: string;
  readonly title: string;
  /** What the column means. */
  readonly about?: string;
  readonly cell: (row: R) => ComponentChildren;
  readonly isNumber?: boolean;
  /** From which width of the window on it is shown. Default: always. */
  readonly from?: 'phone' | 'tablet' | 'desktop' | 'wide';
  /** Orders the rows by this column. */
  readonly onSort?: () => void;
  readonly sorted?: 'ascending' | 'descending' | undefined;
}

export interface TableProps<R> {
  readonly label: string;
  readonly columns: readonly Column<R>[];
  readonly rows: readonly R[];
  readonly keyOf: (row: R) => string;
  readonly empty?: ComponentChildren;
  readonly rowClass?: (row: R) => string;
  /** Told which rows are to be seen: the first and the one behind the last. */
  readonly onWindow?: (from: number, to: number) => void;
}

/** Tables with more rows are drawn in part. */
const MOST_DRAWN = 120;
const BEYOND = 15;

/** The table that the keyboard moves in: the last one that was drawn. */
let moveInTable: ((by: number) => boolean) | undefined;

/** Moves the focus by so many rows. Returns whether there is a table. */
export const moveRow = (by: number): boolean => moveInTable?.(by) ?? false;

/** A table of any length: only the rows that can be seen are drawn, all of one height. */
export function Table<R>(props: TableProps<R>): VNode {
  const { columns, rows, keyOf, rowClass } = props;
  const body = useRef<HTMLTableSectionElement>(null);
  const isVirtual = rows.length > MOST_DRAWN;
  const [rowHeight, setRowHeight] = useState(37);
  const [shown, setShown] = useState({ from: 0, to: MOST_DRAWN });
  const wanted = useRef<number | undefined>(undefined);

  useLayoutEffect(() => {
    const measure = (): void => {
      const element = body.current;
      if (element === null) return;
      const height = element.querySelector('tr[data-at]')?.getBoundingClientRect().height ?? 0;
      if (height > 0 && Math.abs(height - rowHeight) > 0.5) setRowHeight(height);
      const { top } = element.getBoundingClientRect();
      const first = Math.floor(-top / rowHeight) - BEYOND;
      const from = isVirtual ? Math.max(0, Math.min(first, rows.length - 1)) : 0;
      const to = isVirtual
        ? Math.min(rows.length, from + Math.ceil(innerHeight / rowHeight) + 2 * BEYOND)
        : rows.length;
      setShown((before) => (before.from === from && before.to === to ? before : { from, to }));
    };
    measure();
    addEventListener('scroll', measure, { passive: true });
    addEventListener('resize', measure);
    return () => {
      removeEventListener('scroll', measure);
      removeEventListener('resize', measure);
    };
  }, [rows.length, isVirtual, rowHeight]);

  const { onWindow } = props;
  useEffect(() => onWindow?.(shown.from, Math.min(shown.to, rows.length)), [shown, rows]);

  const focusRow = (at: number): boolean => {
    const row = body.current?.querySelector(`tr[data-at="${at}"]`);
    const target = row?.querySelector<HTMLElement>('a, button') ?? (row instanceof HTMLElement ? row : undefined);
    if (target === undefined) return false;
    target.focus({ preventScroll: true });
    row?.scrollIntoView({ block: 'nearest' });
    return true;
  };
  useEffect(() => {
    if (wanted.current !== undefined && focusRow(wanted.current)) wanted.current = undefined;
  });
  useEffect(() => {
    const move = (by: number): boolean => {
      if (rows.length === 0) return false;
      const focused = document.activeElement?.closest<HTMLElement>('tr[data-at]');
      const isOwn = focused && body.current?.contains(focused);
      const now = isOwn ? Number(focused.dataset.at) : by > 0 ? -1 : rows.length;
      const next = Math.max(0, Math.min(rows.length - 1, now + by));
      if (!focusRow(next)) {
        wanted.current = next;
        const top = (body.current?.getBoundingClientRect().top ?? 0) + scrollY;
        scrollTo({ top: top + next * rowHeight - innerHeight / 2 });
      }
      return true;
    };
    moveInTable = move;
    return () => {
      if (moveInTable === move) moveInTable = undefined;
    };
  });

  if (rows.length === 0 && props.empty !== undefined) return <div class="empty">{props.empty}</div>;
  const { from, to } = isVirtual ? shown : { from: 0, to: rows.length };
  const classOf = ({ isNumber, from: width }: Column<R>): string =>
    [isNumber ? 'number' : '', width === undefined ? '' : `from-${width}`].filter(Boolean).join(' ');
  return (
    <div class="table">
      <table aria-label={props.label} aria-rowcount={rows.length + 1} class={isVirtual ? 'virtual' : ''}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.key}
                scope="col"
                class={`${classOf(column)} c-${column.key}`}
                title={column.about}
                aria-sort={column.sorted}
              >
                {column.onSort === undefined ? (
                  column.title
                ) : (
                  <button type="button" class="plain" onClick={column.onSort}>
                    {column.title}
                  </button>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {from > 0 ? <Gap height={from * rowHeight} key="above" /> : undefined}
          {rows.slice(from, to).map((row, nth) => (
            <tr
              key={keyOf(row)}
              data-at={from + nth}
              aria-rowindex={from + nth + 2}
              tabIndex={-1}
              class={rowClass?.(row) ?? ''}
            >
              {columns.map((column) => (
                <td key={column.key} class={`${classOf(column)} c-${column.key}`}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {to < rows.length ? <Gap height={(rows.length - to) * rowHeight} key="below" /> : undefined}
        </tbody>
      </table>
    </div>
  );
}

/** Stands for rows that are not drawn. Its one cell spans no columns: those that a narrow window hides would get room again. */
function Gap({ height }: { readonly height: number }): VNode {
  return (
    <tr class="gap">
      <td style={{ height: `${height}px` }} />
    </tr>
  );
}
