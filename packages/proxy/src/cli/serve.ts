import { setTimeout as delay } from 'node:timers/promises';
import { complain, createLogger, explainStartError, untilSignal } from '@taskmaster/server/program';
import { type ProxySettings, proxySettings } from '../config.ts';
import { type RunningProxy, startProxy } from '../proxy.ts';

export interface ServeOptions {
  readonly config: ProxySettings;
  /** Report the state of the proxy as one line of JSON, for programs. */
  readonly json: boolean;
}

/**
 * A proxy that has found no cluster by then reports that it is looking for one, in ms. A running cluster usually answers earlier.
 */
const REPORT_WAIT_AFTER_MS = 1_000;

/** Runs a proxy until a signal stops it. Resolves with the exit code of the process. */
export async function serve({ config, json }: ServeOptions): Promise<number> {
  const missing = proxySettings.missing(config);
  if (missing !== undefined) {
    complain('taskmaster-proxy', missing);
    return 2;
  }
  const log = createLogger(config.logLevel);
  // The process still ends: after an unexpected error its state is unknown. A proxy has no state that a restart loses.
  process.on('uncaughtExceptionMonitor', (err) => log.fatal({ err }, 'unexpected error: the proxy exits'));

  const stopSignal = untilSignal((signal) => log.info({ signal }, 'shutting down; a second signal exits at once'));
  let proxy: RunningProxy;
  try {
    proxy = await startProxy(config, { log });
  } catch (error) {
    log.debug({ err: error }, 'could not start');
    complain('taskmaster-proxy', explainStartError(error, config));
    return 1;
  }
  const report = (isReady: boolean): void => {
    process.stdout.write(json ? stateJson(proxy, isReady) : stateText(proxy, config, isReady));
  };
  const failed = await untilEnd(proxy, stopSignal, report);
  if (failed) complain('taskmaster-proxy', explainStartError(failed.error, config));
  await proxy.stop();
  log.info({}, 'stopped');
  return failed ? 1 : 0;
}

/** Resolves when the proxy should end, with the error if the cluster refused it. */
async function untilEnd(
  { ready }: RunningProxy,
  stopSignal: Promise<void>,
  report: (isReady: boolean) => void,
): Promise<{ readonly error: unknown } | undefined> {
  const found = ready.then(
    () => undefined,
    (error: unknown) => ({ error }),
  );
  const end = stopSignal.then(() => 'signal' as const);
  const patience = new AbortController();
  const first = await Promise.race([
    end,
    found,
    delay(REPORT_WAIT_AFTER_MS, 'waiting' as const, { signal: patience.signal }),
  ]);
  patience.abort();
  if (first === 'waiting') report(false);
  const outcome = first === 'waiting' ? await Promise.race([end, found]) : first;
  if (outcome === 'signal') return undefined;
  if (outcome) return outcome;
  report(true);
  await stopSignal;
  return undefined;
}

function stateJson({ grpcAddress, httpAddress, problem }: RunningProxy, isReady: boolean): string {
  const state = isReady ? { ready: true } : { ready: false, reason: problem };
  return `${JSON.stringify({ ...state, grpc: grpcAddress, http: httpAddress, pid: process.pid })}\n`;
}

function stateText({ grpcAddress, httpAddress }: RunningProxy, { join }: ProxySettings, isReady: boolean): string {
  const at = join.join(', ');
  return [
    isReady
      ? 'The TaskMaster proxy is ready.'
      : `The TaskMaster proxy listens and is looking for the cluster at ${at}.`,
    `  gRPC    ${grpcAddress}`,
    `  health  http://${httpAddress}/readyz`,
    ...(isReady ? [`  joined  ${at}`] : []),
    '',
  ].join('\n');
}
