import type { QueueEvent } from '@taskmaster/client';
import type { Shell } from '../../views/output.ts';
import { lineOf, objectOf } from '../events.ts';
import type { Row } from './board.ts';
import type { About, View } from './view.ts';

/** Shows each event as a line, and the stacks of errors below it. With `--json` each is an object. */
export class EventLines implements View {
  readonly #shell: Shell;
  #notice: string | undefined;

  constructor(shell: Shell, about: About) {
    this.#shell = shell;
    const { out } = shell;
    if (out.json) {
      void out.object({ ready: true, ...about });
      return;
    }
    const { address, data, console } = about;
    void out.line(`TaskMaster is ready at ${address}, with its data ${data}.`);
    if (console !== undefined) void out.line(`The console is at ${console}`);
    void out.line('Ctrl-C ends it. On a terminal, keys choose a failed task or a dead letter, and retry or drop it.');
  }

  async event(event: QueueEvent, row: Row | undefined): Promise<void> {
    const { out } = this.#shell;
    const { tookMs, stack } = row ?? {};
    const isFailure = event.kind === 'failed' || event.kind === 'dead-lettered';
    if (out.json) {
      await out.object({ ...objectOf(event), tookMs, stack: isFailure ? stack : undefined });
      return;
    }
    await out.line(lineOf(event, tookMs));
    if (!isFailure || stack === undefined) return;
    for (const line of stack.split('\n')) await out.line(`    ${line}`);
  }

  totals(): void {}

  notice(text: string | undefined): void {
    if (text !== undefined && text !== this.#notice) this.#shell.err.line(text);
    this.#notice = text;
  }
}
