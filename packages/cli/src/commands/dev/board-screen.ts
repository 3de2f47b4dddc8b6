import type { Readable } from 'node:stream';
import { styleText } from 'node:util';
import { pidText, type QueueEvent } from '@taskmaster/client';
import { escapeControls } from '@taskmaster/proto';
import type { Session } from '../../session/session.ts';
import { count, countOf, duration } from '../../views/format.ts';
import { sizeOf } from '../../views/output.ts';
import { errorLine, errorReport } from '../../views/report-error.ts';
import { Screen } from '../../views/screen.ts';
import { type Column, tableOf } from '../../views/table.ts';
import { drop, retry } from './act.ts';
import type { Board, Row, RowState } from './board.ts';
import type { About, View } from './view.ts';

/** Time between two drawings, in ms. */
const DRAW_MS = 100;
/** Lines of a stack. */
const STACK_LINES = 8;
/** Lines that are neither tasks nor a stack: heading, totals, notice, two headers, keys, and blank ones. */
const OTHER_LINES = 9;

const KEYS = '↑ ↓ choose a failed task   r retry it now   d drop it   q end';

/** Shows the tasks of a board on the alternate screen. Keys choose a failed one, and retry or drop it. */
export class BoardScreen implements View, Disposable {
  readonly #session: Session;
  readonly #board: Board;
  readonly #about: About;
  readonly #screen: Screen;
  readonly #keys: Disposable;
  readonly #timer: NodeJS.Timeout;
  #waiting = 0;
  #running = 0;
  #notice: string | undefined;
  /** What the last key has done. */
  #done = '';
  #selected: Row | undefined;
  /** Its place among the failed tasks, where the next one is chosen when it is none any more. */
  #place = 0;

  constructor(session: Session, board: Board, about: About, quit: () => void) {
    this.#session = session;
    this.#board = board;
    this.#about = about;
    this.#screen = new Screen(session.out);
    this.#keys = readKeys(session.stdin, (key) => (key === 'q' || key === CTRL_C ? quit() : this.#press(key)));
    this.#draw();
    // Redrawn also without events, because the time of running tasks goes on.
    this.#timer = setInterval(() => this.#draw(), DRAW_MS);
  }

  async event(_event: QueueEvent, _row: Row | undefined): Promise<void> {}

  totals(waiting: number, running: number): void {
    this.#waiting = waiting;
    this.#running = running;
  }

  notice(text: string | undefined): void {
    this.#notice = text;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#keys[Symbol.dispose]();
    this.#screen[Symbol.dispose]();
  }

  /** The tasks of which keys can choose one. */
  #failing(): Row[] {
    const failing = this.#board.rows.filter(({ state }) => state === 'failed' || state === 'dead');
    const at = this.#selected === undefined ? -1 : failing.indexOf(this.#selected);
    this.#place = at >= 0 ? at : Math.max(0, Math.min(this.#place, failing.length - 1));
    this.#selected = failing[this.#place];
    return failing;
  }

  #press(key: string): void {
    const failing = this.#failing();
    const selected = this.#selected;
    if (key === UP || key === DOWN) {
      this.#selected = failing[this.#place + (key === UP ? -1 : 1)] ?? selected;
    } else if (selected !== undefined && (key === 'r' || key === 'd')) {
      const isRetry = key === 'r';
      const name = `${selected.queue} ${nameOf(selected)}`;
      const { state } = selected;
      (isRetry ? retry : drop)(this.#session.client, selected).then(
        () => {
          this.#done = `${isRetry ? 'retried' : 'dropped'} ${name}`;
          // A task whose backoff has ended already does not change.
          if (isRetry && state === 'failed' && selected.state === 'failed') selected.state = 'waiting';
        },
        (error: unknown) => {
          this.#done = errorLine(errorReport(error));
        },
      );
    }
    this.#draw();
  }

  #draw(): void {
    const { stream } = this.#session.out;
    const { address, data, console } = this.#about;
    const { completed, failed, dead } = this.#board.counts;
    const failing = this.#failing();
    const stack = this.#stackOfSelected();
    const room = Math.max(2, sizeOf(stream).rows - OTHER_LINES - stack.length);
    // Failed tasks take at most half of the room, around the selected one.
    const most = Math.max(1, Math.floor(room / 2));
    const from = Math.max(0, Math.min(this.#place - Math.floor(most / 2), failing.length - most));
    const shownFailing = failing.slice(from, from + most);
    const others = this.#board.rows.filter(({ state }) => state !== 'failed' && state !== 'dead');
    const heading = [`TaskMaster dev  ${address}`, `data ${data}`, ...(console === undefined ? [] : [console])];
    const totals = [
      `${count(this.#waiting)} waiting`,
      `${count(this.#running)} running`,
      `${count(completed)} completed`,
      `${countOf(failed + dead, 'failed attempt')}`,
      `${countOf(dead, 'dead letter')}`,
    ];
    const lines = [
      escapeControls(heading.join('  ')),
      totals.join('  '),
      this.#notice === undefined
        ? escapeControls(this.#done)
        : styleText('red', escapeControls(this.#notice), { stream }),
    ];
    if (shownFailing.length > 0) {
      lines.push(...this.#table(shownFailing, 'ERROR'), ...stack, '');
    }
    if (others.length > 0) lines.push(...this.#table(others.slice(0, room - shownFailing.length), 'DATA'));
    else if (failing.length === 0) lines.push('No task has come yet.');
    const filled = sizeOf(stream).rows - 1;
    const page = [...lines.slice(0, filled), ...Array<string>(Math.max(0, filled - lines.length)).fill('')];
    this.#screen.draw([...page, styleText('bold', KEYS, { stream })].join('\n'));
  }

  #stackOfSelected(): string[] {
    const selected = this.#selected;
    if (selected === undefined) return [];
    const { columns } = sizeOf(this.#session.out.stream);
    const text = [selected.data === '' ? [] : [`data ${selected.data}`], selected.stack ?? []].flat().join('\n');
    const lines = text === '' ? [] : text.split('\n').slice(0, STACK_LINES);
    return lines.map((line) => `    ${escapeControls(line)}`.slice(0, columns));
  }

  /** The lines of a table of tasks. */
  #table(rows: readonly Row[], last: 'DATA' | 'ERROR'): string[] {
    const { stream } = this.#session.out;
    const now = Date.now();
    const columns: Column<Row>[] = [
      { title: ' ', cell: (row) => (row === this.#selected ? '>' : ' ') },
      { title: 'TIME', cell: ({ at }) => new Date(at).toLocaleTimeString('en-GB') },
      { title: 'QUEUE', cell: ({ queue }) => queue },
      { title: 'TASK', cell: nameOf },
      { title: 'STATE', cell: ({ state }) => state },
      { title: 'ATTEMPT', align: 'right', cell: ({ attempt }) => (attempt === 0 ? '' : count(attempt)) },
      { title: 'TOOK', align: 'right', cell: (row) => tookText(row, now) },
      { title: last, cell: ({ data, text }) => (last === 'DATA' ? [data, text].filter(Boolean).join('  ') : text) },
    ];
    const [header = '', ...lines] = tableOf(rows, columns, stream).split('\n');
    return [header, ...lines.map((line, at) => coloured(line, rows[at], stream))];
  }
}

const nameOf = ({ key, pid }: Row): string => key ?? pidText(pid);

const tookText = ({ leasedAt, tookMs }: Row, now: number): string => {
  if (leasedAt !== undefined) return duration(now - leasedAt);
  return tookMs === undefined ? '' : duration(tookMs);
};

const colours: Partial<Readonly<Record<RowState, 'green' | 'red' | 'yellow' | 'cyan' | 'dim'>>> = {
  running: 'cyan',
  completed: 'green',
  failed: 'yellow',
  dead: 'red',
  cancelled: 'dim',
  removed: 'dim',
};

function coloured(line: string, row: Row | undefined, stream: Session['out']['stream']): string {
  const colour = row && colours[row.state];
  return colour === undefined ? line : styleText(colour, line, { stream });
}

const CTRL_C = '\u0003';
const ARROW = '\u001b[';
const UP = `${ARROW}A`;
const DOWN = `${ARROW}B`;

/** Reads keys one by one, until it is disposed of. */
function readKeys(stdin: Readable & { setRawMode?(mode: boolean): unknown }, onKey: (key: string) => void): Disposable {
  const onData = (typed: string | Buffer): void => {
    // Keys that are held down come together.
    for (let left = String(typed); left !== ''; ) {
      const key = left.slice(0, left.startsWith(ARROW) ? UP.length : 1);
      onKey(key);
      left = left.slice(key.length);
    }
  };
  stdin.setRawMode?.(true);
  stdin.on('data', onData).resume();
  return {
    [Symbol.dispose]() {
      stdin.off('data', onData).pause();
      stdin.setRawMode?.(false);
    },
  };
}
