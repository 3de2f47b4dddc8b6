import { SystemClock } from '@taskmaster/engine/ports';
import { complain, explainStartError } from '@taskmaster/server/program';
import type { NodeSettings } from '../config.ts';

export interface AcceptLossCommand {
  readonly config: NodeSettings;
  /** The node whose database has lost acknowledged work. */
  readonly name: string;
}

/** Accepts the loss, so that the node starts again. Resolves with the exit code of the process. */
export async function acceptLoss({ config, name }: AcceptLossCommand): Promise<number> {
  const { url, schema } = config.store;
  if (url === '') {
    complain('taskmaster-node', 'accept-loss is of a node whose data is in a database: name it with --store');
    return 2;
  }
  try {
    const { acceptStoreLoss } = await import('@taskmaster/postgres');
    const accepted = await acceptStoreLoss({ url, schema, name, now: new SystemClock().now() });
    if (accepted === undefined) {
      process.stdout.write(`The database has lost nothing of node ${name} that was noticed. Nothing was changed.\n`);
      return 0;
    }
    const { acknowledged, seq } = accepted;
    process.stdout.write(
      `Accepted: commits of node ${name} were acknowledged up to number ${acknowledged}, and the database ends with number ${seq}.\n` +
        'Tasks that were added since are gone, tasks that were completed since run again, and lease tokens may repeat.\n',
    );
    return 0;
  } catch (error) {
    complain('taskmaster-node', explainStartError(error, config));
    return 1;
  }
}
