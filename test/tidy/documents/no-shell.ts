import { PassThrough } from 'node:stream';
import { Messages, Output, type Shell } from '../../../packages/cli/src/views/output.ts';

/** A shell for command lines that are parsed but not run: it looks like a terminal and shows nothing. */
export function noShell(): Shell {
  // It discards what is written: otherwise a long text would wait for a reader.
  const shown = () => Object.assign(new PassThrough().resume(), { isTTY: true });
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const { signal } = new AbortController();
  return { stdin, out: new Output(shown(), { json: false }), err: new Messages(shown()), signal };
}
