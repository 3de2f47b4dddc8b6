import { PassThrough, type Readable } from 'node:stream';
import { mainIn } from '../main.ts';
import { InterruptedError } from '../views/cli-errors.ts';
import { Messages, Output } from '../views/output.ts';

/** Exit code and output of a command line. */
export interface CliEnded {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running command line. */
export interface CliRunning {
  readonly stdout: string;
  readonly stderr: string;
  readonly ended: Promise<CliEnded>;
  /** Types text on the terminal. */
  type(text: string): void;
  /** Closes its input. */
  endInput(): void;
  /** Presses Ctrl-C. */
  interrupt(): void;
}

export interface CliOptions {
  /** Default: no terminal. */
  readonly isTerminal?: boolean;
}

/** Starts `taskmaster ...args` in this process. `endpoint`: undefined if the arguments or the environment name one. */
export function startCli(endpoint: string | undefined, args: readonly string[], options: CliOptions = {}): CliRunning {
  const { isTerminal = false } = options;
  const stdin: Readable & { isTTY?: boolean } = Object.assign(new PassThrough(), { isTTY: isTerminal });
  const out = collector(isTerminal);
  const err = collector(isTerminal);
  const interrupt = new AbortController();
  const all = endpoint === undefined ? args : [...args, '--endpoint', endpoint];
  const shell = {
    stdin,
    out: new Output(out.stream, { json: args.includes('--json') }),
    err: new Messages(err.stream),
  };
  const ended = mainIn({ ...shell, signal: interrupt.signal }, all).then(async (code) => {
    await shell.out.flush();
    return { code, stdout: out.text, stderr: err.text };
  });
  return {
    get stdout() {
      return out.text;
    },
    get stderr() {
      return err.text;
    },
    ended,
    type: (text) => void stdin.push(text),
    endInput: () => void stdin.push(null),
    interrupt: () => interrupt.abort(new InterruptedError('SIGINT')),
  };
}

/** Runs `taskmaster ...args` to its end. */
export function runCli(endpoint: string, args: readonly string[], options?: CliOptions): Promise<CliEnded> {
  return startCli(endpoint, args, options).ended;
}

function collector(isTTY: boolean) {
  const stream = Object.assign(new PassThrough(), { isTTY });
  const collected = { stream, text: '' };
  stream.setEncoding('utf8').on('data', (text: string) => {
    collected.text += text;
  });
  return collected;
}
