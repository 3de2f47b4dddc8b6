import type { TlsOptions } from '@taskmaster/client';
import type { LoadReport, ReportedInterval } from '../report/load-report.ts';
import type { RunSettings } from '../run/run-instance.ts';

/** What a process of a load needs. Plain data. */
export interface ProcessJob {
  readonly settings: RunSettings;
  readonly endpoints: readonly string[];
  readonly tls: TlsOptions | undefined;
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
  /** Undefined: the environment has the token, or there is none. */
  readonly tokenFile: string | undefined;
  readonly insecure: boolean;
  readonly httpProxy: boolean;
  readonly runId: string;
  readonly release: string;
}

/** Message to a process of a load. */
export type ToProcess = { readonly kind: 'run'; readonly job: ProcessJob } | { readonly kind: 'stop' };

/** The figures since the one before. */
export type Tick = Omit<ReportedInterval, 'atMs'>;

/** Message from a process of a load. */
export type FromProcess =
  | { readonly kind: 'started' }
  | { readonly kind: 'tick'; readonly tick: Tick }
  | { readonly kind: 'done'; readonly report: LoadReport; readonly notCleaned: readonly string[] }
  /** `name` is the class of the error, and `reason` is that of a `TaskMasterError`. */
  | { readonly kind: 'failed'; readonly name: string; readonly reason: string | undefined; readonly message: string };
