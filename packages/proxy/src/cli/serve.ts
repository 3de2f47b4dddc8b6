import { setTimeout as delay } from 'node:timers/promises';
import { createLogger, explainStartError, untilSignal } from '@taskmaster/server/program';
import type { ProxyConfig } from '../config.ts';
import { type RunningProxy, startProxy } from '../proxy.ts';

export interface ServeOptions {
  readonly config: ProxyConfig;
  /** Says that it is ready in a line of JSON, for programs. */
  readonly json: boolean;
}

/** A cluster that is there is found sooner. */
const WAIT_UNSAID_MS = 1_000;

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
  const say = (isReady: boolean): void => {
    process.stdout.write(json ? stateJson(proxy, isReady) : stateText(proxy, config, isReady));
  };
  const failed = await served(proxy, told, say);
  if (failed) process.stderr.write(`taskmaster-proxy: ${explainStartError(failed.error, config)}\n`);
  await proxy.stop();
  log.info({}, 'stopped');
  return failed ? 1 : 0;
}

/** Resolves when the proxy is to end, with what is wrong if it is of no use. */
async function served(
  { ready }: RunningProxy,
  told: Promise<void>,
  say: (isReady: boolean) => void,
): Promise<{ readonly error: unknown } | undefined> {
  const found = ready.then(
    () => undefined,
    (error: unknown) => ({ error }),
  );
  const end = told.then(() => 'told' as const);
  const patience = new AbortController();
  const first = await Promise.race([
    end,
    found,
    delay(WAIT_UNSAID_MS, 'waiting' as const, { signal: patience.signal }),
  ]);
  patience.abort();
  if (first === 'waiting') say(false);
  const outcome = first === 'waiting' ? await Promise.race([end, found]) : first;
  if (outcome === 'told') return undefined;
  if (outcome) return outcome;
  say(true);
  await told;
  return undefined;
}

function stateJson({ grpcAddress, httpAddress, problem }: RunningProxy, isReady: boolean): string {
  const state = isReady ? { ready: true } : { ready: false, reason: problem };
  return `${JSON.stringify({ ...state, grpc: grpcAddress, http: httpAddress, pid: process.pid })}\n`;
}

function stateText({ grpcAddress, httpAddress }: RunningProxy, { join }: ProxyConfig, isReady: boolean): string {
  const at = join.join(', ');
  return [
    isReady ? 'The TaskMaster proxy is ready.' : `The TaskMaster proxy listens, and looks for the cluster at ${at}.`,
    `  gRPC    ${grpcAddress}`,
    `  health  http://${httpAddress}/readyz`,
    ...(isReady ? [`  joined  ${at}`] : []),
    '',
  ].join('\n');
}
