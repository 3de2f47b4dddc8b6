import { isTaskMasterError, type RetryEvent, type TaskMasterClient } from '@taskmaster/client';
import { CommandFailedError } from '../views/cli-errors.ts';
import { exitCodes } from '../views/exit-codes.ts';
import { duration } from '../views/format.ts';
import type { Shell } from '../views/output.ts';
import { unreachableHolders, unreachableText } from './unreachable-holder.ts';

/** After this time a command on a terminal says which node it waits for, in ms. */
const NOTICE_AFTER_MS = 1_000;

interface WaitNoticeParts {
  readonly shell: Shell;
  /** The queues of the command. None: there is no notice. */
  readonly queues: readonly string[];
  /** Timeout of one call, in ms. */
  readonly timeoutMs: number;
}

/** Says once on a terminal which node a command waits for, and names the nodes that did not answer in the final error. */
export class WaitNotice {
  readonly #parts: WaitNoticeParts;
  #client: TaskMasterClient | undefined;
  #isPrinted = false;

  constructor(parts: WaitNoticeParts) {
    this.#parts = parts;
  }

  /** Hook for a call that failed and will be repeated. */
  readonly onRetry = ({ error, elapsedMs }: RetryEvent): void => {
    const { shell, queues, timeoutMs } = this.#parts;
    const client = this.#client;
    const isShown = shell.err.isTerminal && !shell.out.json && queues.length > 0;
    if (this.#isPrinted || !isShown || client === undefined || elapsedMs < NOTICE_AFTER_MS) return;
    this.#isPrinted = true;
    void unreachableHolders(client, error, queues).then((holders) => {
      const why = holders.length > 0 ? unreachableText(holders) : error.message;
      shell.err.line(`${why}; retrying for ${duration(timeoutMs)}`);
    });
  };

  /** Runs a command with this client. @throws its errors; an error about a holder that does not answer names the holder. */
  async run<T>(client: TaskMasterClient, command: () => Promise<T>): Promise<T> {
    this.#client = client;
    try {
      return await command();
    } catch (cause) {
      if (!isTaskMasterError(cause) || this.#parts.shell.signal.aborted) throw cause;
      const holders = await unreachableHolders(client, cause, this.#parts.queues);
      if (holders.length === 0) throw cause;
      const { gaveUpAfterMs } = cause;
      const gaveUp = gaveUpAfterMs === undefined ? '' : `; gave up after ${duration(gaveUpAfterMs)}`;
      const hint = 'restart the node: its tasks wait for it';
      const details = { hint, exitCode: exitCodes.unreachable, cause };
      throw new CommandFailedError(cause.reason, `${unreachableText(holders)}${gaveUp}`, details);
    }
  }
}
