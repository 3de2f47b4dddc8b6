import type { UnreachableNode } from '@taskmaster/proto';
import { type ExitCode, exitCodes } from './exit-codes.ts';
import type { Shell } from './output.ts';

/** The nodes that did not answer the requests of a command. What they hold is missing in its output. */
export class MissingNodes {
  readonly #nodes = new Map<string, UnreachableNode>();

  /** Takes the nodes of one reply. */
  readonly note = (nodes: readonly UnreachableNode[]): void => {
    for (const node of nodes) this.#nodes.set(node.nodeId, node);
  };

  get isEmpty(): boolean {
    return this.#nodes.size === 0;
  }

  /** What is missing, in one line. Undefined: nothing. */
  text(what: MissingWhat): string | undefined {
    if (this.isEmpty) return undefined;
    const nodes = [...this.#nodes.values()].map(({ nodeId, name, address }) => {
      const known = name || nodeId || 'a node';
      return address === '' ? known : `${known} (${address})`;
    });
    const verb = nodes.length === 1 ? 'it did' : 'they did';
    return `${what} of ${nodes.join(', ')} are missing: ${verb} not answer`;
  }

  /** Says on stderr what is missing. Returns the exit code: that of the command, unless something is missing. */
  report({ out, err }: Pick<Shell, 'out' | 'err'>, what: MissingWhat, code: ExitCode): ExitCode {
    const message = this.text(what);
    if (message === undefined) return code;
    const nodes = [...this.#nodes.values()].map(({ nodeId, name, address }) => ({ nodeId, name, address }));
    reportIncomplete({ out, err }, message, { nodes });
    return exitCodes.incomplete;
  }
}

type MissingWhat = 'queues' | 'schedules' | 'tasks' | 'dead letters';

/** Says on stderr why the output is incomplete: for programs as an error with the reason INCOMPLETE. */
export function reportIncomplete(
  { out, err }: Pick<Shell, 'out' | 'err'>,
  message: string,
  details: object = {},
): void {
  if (out.json) err.object({ error: { reason: 'INCOMPLETE', message, ...details } });
  else err.line(message);
}
