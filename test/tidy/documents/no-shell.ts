import { PassThrough } from 'node:stream';
import { Messages, Output, type Shell } from '../../../packages/cli/src/views/output.ts';

/** A shell for command lines that are parsed but not run: it looks like a terminal and shows nothing. */
export function noShell(): Shell {
  const stream = () => Object.assign(new PassThrough(), { isTTY: true });
  const { signal } = new AbortController();
  return { stdin: stream(), out: new Output(stream(), { json: false }), err: new Messages(stream()), signal };
}
