import { type CallSignal, Refusal } from '@taskmaster/engine/domain';
import {
  type EntryBound,
  encodeToBuffer,
  GetMetricSpecResponse,
  GetMetricsRequest,
  GetMetricsResponse,
  IsActiveResponse,
  ScaledObjectRef,
} from '@taskmaster/proto';
import { clusterAccess } from '@taskmaster/server/access';
import type { StreamingHandler, UnaryCaller, UnaryHandler } from '@taskmaster/server/calls';
import type { StreamingService, UnaryService } from '@taskmaster/server/grpc';
import { decodeRequest, excerpt, refuse } from '@taskmaster/server/requests';
import { peerOf, routerItself } from '../router/routed-peer.ts';
import type { Router } from '../router/routing/router.ts';
import { ServedCaller } from '../router/served-caller.ts';
import { unarySender } from '../upstream/sender.ts';
import { figuresFrom } from './figures.ts';
import { parseTrigger, type Trigger } from './trigger.ts';
import { Watches } from './watches.ts';

export interface ScalerLimits {
  /** Pause between two reads of a watched queue or pattern, in ms. */
  readonly pollIntervalMs: number;
  /** Maximum number of open streams. */
  readonly maxStreams: number;
}

export const DEFAULT_SCALER_LIMITS: ScalerLimits = { pollIntervalMs: 1_000, maxStreams: 2_000 };

/** Full name of the service, which KEDA has chosen. */
const SCALER_SERVICE = 'externalscaler.ExternalScaler';
/** A read of a watched queue that takes longer has failed, in ms. */
const READ_TIMEOUT_MS = 5_000;
const RETRY_MS = 1_000;
/** More keys than a trigger can use. */
const MOST_KEYS = 64;

const inTrigger: readonly EntryBound[] = [{ field: 'scalerMetadata', counted: { 3: 'each' }, most: MOST_KEYS }];
const inMetrics: readonly EntryBound[] = [{ field: 'scalerMetadata', counted: { 1: { 3: 'each' } }, most: MOST_KEYS }];

/** External scaler of KEDA: tells an autoscaler how much work some queues have; see externalscaler.proto. */
export class Scaler {
  readonly unary: UnaryService;
  readonly streaming: StreamingService;
  readonly #limits: ScalerLimits;
  readonly #watches: Watches;
  #streams = 0;

  constructor(router: Router, limits: ScalerLimits = DEFAULT_SCALER_LIMITS) {
    const { clock, log, upstream } = router;
    const read = figuresFrom(router);
    this.#limits = limits;
    this.#watches = new Watches({
      clock,
      log,
      pollIntervalMs: limits.pollIntervalMs,
      read: (selection, signal) =>
        read(selection, {
          sender: unarySender(upstream, routerItself),
          access: clusterAccess,
          gone: false,
          signal,
          until: clock.now() + READ_TIMEOUT_MS,
        }),
    });
    const valueNow = async ({ selection, measure }: Trigger, caller: UnaryCaller): Promise<number> =>
      measure(await read(selection, new ServedCaller(router, caller, unarySender(upstream, peerOf(caller)))));
    const isActive: UnaryHandler = async (bytes, caller) => {
      const trigger = triggerIn(bytes);
      return activity((await valueNow(trigger, caller)) > trigger.activation);
    };
    const getMetrics: UnaryHandler = async (bytes, caller) => {
      const { metricName, scaledObjectRef } = decodeRequest(GetMetricsRequest, bytes, inMetrics);
      const trigger = parseTrigger(scaledObjectRef?.scalerMetadata ?? {});
      if (metricName !== '' && metricName !== trigger.metricName) {
        refuse(
          'INVALID_ARGUMENT',
          { field: 'metricName' },
          `is ${excerpt(metricName)}: this trigger has ${trigger.metricName}`,
        );
      }
      return metrics(trigger.metricName, await valueNow(trigger, caller));
    };
    this.unary = {
      name: SCALER_SERVICE,
      unary: { IsActive: isActive, GetMetricSpec: async (bytes) => spec(triggerIn(bytes)), GetMetrics: getMetrics },
    };
    const streaming: Record<string, StreamingHandler> = {
      StreamIsActive: (bytes, caller) => this.#streamActivity(bytes, caller),
      StreamMetricSpec: (bytes, caller) => this.#streamSpec(bytes, caller),
    };
    this.streaming = {
      name: SCALER_SERVICE,
      streaming,
      tooSlow: () => new Refusal('CANCELLED', 'the client does not read the stream'),
      // After an error KEDA waits longer each time before it opens the stream again.
      endsComplete: true,
    };
  }

  /** Number of open streams. */
  get streams(): number {
    return this.#streams;
  }

  async *#streamActivity(bytes: Buffer, caller: UnaryCaller): AsyncGenerator<Uint8Array, undefined> {
    const { selection, measure, activation } = triggerIn(bytes);
    const { group } = selection;
    const recheck = (): void => caller.access.require('read', group);
    recheck();
    using _open = this.#open(caller, recheck);
    let told: boolean | undefined;
    for await (const figures of this.#watches.figures(selection, caller.signal)) {
      const isActive = measure(figures) > activation;
      if (isActive === told) continue;
      told = isActive;
      yield activity(isActive);
    }
  }

  async *#streamSpec(bytes: Buffer, caller: UnaryCaller): AsyncGenerator<Uint8Array, undefined> {
    const trigger = triggerIn(bytes);
    using _open = this.#open(caller);
    yield spec(trigger);
    await aborted(caller.signal);
  }

  /** Counts a stream until it is disposed of. */
  #open(caller: UnaryCaller, recheck?: () => void): Disposable {
    const { maxStreams } = this.#limits;
    if (this.#streams >= maxStreams) {
      throw new Refusal('TOO_MANY_WAITERS', `${maxStreams} streams of autoscalers are open already`, {
        metadata: { limit: String(maxStreams) },
        retryDelayMs: RETRY_MS,
      });
    }
    caller.beginWaiting?.(0, recheck);
    this.#streams++;
    return { [Symbol.dispose]: () => void this.#streams-- };
  }
}

function triggerIn(bytes: Buffer): Trigger {
  return parseTrigger(decodeRequest(ScaledObjectRef, bytes, inTrigger).scalerMetadata);
}

const activity = (result: boolean): Uint8Array => encodeToBuffer(IsActiveResponse, { result });

function spec({ metricName, target }: Trigger): Uint8Array {
  const metricSpec = { metricName, targetSize: Math.ceil(target), targetSizeFloat: target };
  return encodeToBuffer(GetMetricSpecResponse, { metricSpecs: [metricSpec] });
}

function metrics(metricName: string, value: number): Uint8Array {
  const metricValue = { metricName, metricValue: Math.ceil(value), metricValueFloat: value };
  return encodeToBuffer(GetMetricsResponse, { metricValues: [metricValue] });
}

function aborted(signal: CallSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) resolve();
    else signal?.addEventListener('abort', resolve);
  });
}
