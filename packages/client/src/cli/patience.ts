import type { TaskMasterClient } from '../api/client.ts';
import { isTaskMasterError } from '../values/errors.ts';
import type { RetryEvent } from '../values/options.ts';
import { escapeControls } from './input/bytes-text.ts';
import { CommandFailedError } from './output/cli-errors.ts';
import { exitCodes } from './output/exit-codes.ts';
import { duration } from './output/format.ts';
import type { Shell } from './shell.ts';
import { silenceText, silentHolders } from './silent-holder.ts';

/** Whoever waits on a terminal for so long is told for what, in ms. */
const TELL_AFTER_MS = 1_000;

export interface PatienceParts {
  readonly shell: Shell;
  /** What the command is about; none: nothing is told. */
  readonly queues: readonly string[];
  /** Longest time of one call, in ms. */
  readonly timeoutMs: number;
}

/** Tells whoever waits at a terminal what a command waits for, once; and in the end who did not answer. */
export class Patience {
  readonly #parts: PatienceParts;
  #client: TaskMasterClient | undefined;
  #isTold = false;

  constructor(parts: PatienceParts) {
    this.#parts = parts;
  }

  /** A call failed and will be repeated. */
  readonly onRetry = ({ error, elapsedMs }: RetryEvent): void => {
    const { shell, queues, timeoutMs } = this.#parts;
    const client = this.#client;
    const isWatched = shell.err.isTTY === true && !shell.out.json && queues.length > 0;
    if (this.#isTold || !isWatched || client === undefined || elapsedMs < TELL_AFTER_MS) return;
    this.#isTold = true;
    void silentHolders(client, error, queues).then((holders) => {
      const why = holders.length > 0 ? silenceText(holders) : escapeControls(error.message);
      shell.err.write(`${why}; trying for ${duration(timeoutMs)}\n`);
    });
  };

  /** Runs a command with this client. @throws what it throws, said better where that is possible. */
  async run<T>(client: TaskMasterClient, command: () => Promise<T>): Promise<T> {
    this.#client = client;
    try {
      return await command();
    } catch (cause) {
      if (!isTaskMasterError(cause) || this.#parts.shell.signal.aborted) throw cause;
      const holders = await silentHolders(client, cause, this.#parts.queues);
      if (holders.length === 0) throw cause;
      const { gaveUpAfterMs } = cause;
      const gaveUp = gaveUpAfterMs === undefined ? '' : `; gave up after ${duration(gaveUpAfterMs)}`;
      const hint = 'start it again: its tasks wait for it';
      const details = { hint, exitCode: exitCodes.unreachable, cause };
      throw new CommandFailedError(cause.reason, `${silenceText(holders)}${gaveUp}`, details);
    }
  }
}
