import { createLogger, explainStartError, untilSignal } from '@taskmaster/node/cli';
import type { ProxyConfig } from '../config.ts';
import { type RunningProxy, startProxy } from '../proxy.ts';

export interface ServeOptions {
  readonly config: ProxyConfig;
  /** Says that it is ready in a line of JSON, for programs. */
  readonly json: boolean;
}

/** Runs a proxy until it is told to stop. Resolves with the exit code of the process. */
export async function serve({ config, json }: ServeOptions): Promise<number> {
  if (config.join.length === 0) {
    process.stderr.write('taskmaster-proxy: which cluster? Name one of its nodes: --join host:port\n');
    return 2;
  }
  const log = createLogger(config.logLevel);
  // The process still ends, as it must when it does not know its own state; it has none that a restart would lose.
  process.on('uncaughtExceptionMonitor', (err) => log.fatal({ err }, 'unexpected error: the proxy ends'));

  const told = untilSignal((signal) => log.info({ signal }, 'stopping; a second signal ends the proxy at once'));
  let proxy: RunningProxy;
  try {
    proxy = await startProxy(config, { log });
  } catch (error) {
    log.debug({ err: error }, 'could not start');
    process.stderr.write(`taskmaster-proxy: ${explainStartError(error, config)}\n`);
    return 1;
  }
  process.stdout.write(json ? readyJson(proxy) : readyText(proxy, config));
  await told;
  await proxy.stop();
  log.info({}, 'stopped');
  return 0;
}

function readyJson({ grpcAddress, httpAddress }: RunningProxy): string {
  return `${JSON.stringify({ ready: true, grpc: grpcAddress, http: httpAddress, pid: process.pid })}\n`;
}

function readyText({ grpcAddress, httpAddress }: RunningProxy, { join }: ProxyConfig): string {
  return [
    'The TaskMaster proxy is ready.',
    `  gRPC    ${grpcAddress}`,
    `  health  http://${httpAddress}/readyz`,
    `  joined  ${join.join(', ')}`,
    '',
  ].join('\n');
}
