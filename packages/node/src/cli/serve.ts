import { resolve } from 'node:path';
import type { NodeConfig } from '../config.ts';
import { createLogger } from '../logging.ts';
import { type RunningNode, startNode } from '../node.ts';
import { explainStartError } from './start-errors.ts';
import { untilSignal } from './until-signal.ts';

export interface ServeOptions {
  readonly config: NodeConfig;
  /** Says that it is ready in a line of JSON, for programs. */
  readonly json: boolean;
}

/** Runs a node until it is told to stop. Resolves with the exit code of the process. */
export async function serve({ config, json }: ServeOptions): Promise<number> {
  const log = createLogger(config.logLevel);
  // The process still ends, as it must when it does not know its own state; a restart finds everything on disk.
  process.on('uncaughtExceptionMonitor', (err) => log.fatal({ err }, 'unexpected error: the node ends'));

  const told = untilSignal((signal) => log.info({ signal }, 'stopping; a second signal ends the node at once'));
  let node: RunningNode;
  try {
    node = await startNode(config, { log });
  } catch (error) {
    log.debug({ err: error }, 'could not start');
    process.stderr.write(`taskmaster-node: ${explainStartError(error, config)}\n`);
    return 1;
  }
  process.stdout.write(json ? readyJson(node, config) : readyText(node, config));
  await told;
  await node.stop();
  log.info({}, 'stopped');
  return 0;
}

function readyJson({ grpcAddress, httpAddress }: RunningNode, { dataDir }: NodeConfig): string {
  const line = { ready: true, grpc: grpcAddress, http: httpAddress, dataDir: resolve(dataDir), pid: process.pid };
  return `${JSON.stringify(line)}\n`;
}

function readyText({ grpcAddress, httpAddress }: RunningNode, { dataDir }: NodeConfig): string {
  return [
    'TaskMaster is ready.',
    `  gRPC    ${grpcAddress}`,
    `  queues  http://${httpAddress}/`,
    `  data    ${resolve(dataDir)}`,
    '',
  ].join('\n');
}
