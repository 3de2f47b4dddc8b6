import type { UnreachableNode } from '@taskmaster/proto';
import { escapeControls } from '../input/bytes-text.ts';

/** The nodes that did not answer the requests of a listing. */
export class MissingNodes {
  readonly #nodes = new Map<string, UnreachableNode>();

  /** Takes the nodes of one reply. */
  readonly note = (nodes: readonly UnreachableNode[]): void => {
    for (const node of nodes) this.#nodes.set(node.nodeId, node);
  };

  /** Says which nodes did not answer, on stderr also with --json. What they hold is missing in the output. */
  report(err: { write(text: string): unknown }, what: 'queues' | 'schedules'): void {
    if (this.#nodes.size === 0) return;
    const names = [...this.#nodes.values()].map(({ name, address }) => `${name} (${address})`).join(', ');
    const verb = this.#nodes.size === 1 ? 'it did' : 'they did';
    err.write(`${what} of ${escapeControls(names)} are missing: ${verb} not answer\n`);
  }
}
