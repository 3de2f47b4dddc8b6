import { type ClientReadableStream, credentials, type ServiceError } from '@grpc/grpc-js';
import { keptLog, SeededRandom, VirtualClock } from '@taskmaster/engine/testing';
import {
  ExternalScalerClient,
  encodeToBuffer,
  GetQueueStatsRequest,
  GetQueueStatsResponse,
  type IsActiveResponse,
  QueueStats,
  type ScaledObjectRef,
} from '@taskmaster/proto';
import { noService, startServer } from '@taskmaster/server/testing';
import { expect, onTestFinished } from 'vitest';
import { Router } from '../router/routing/router.ts';
import { Scaler, type ScalerLimits } from '../scaler/scaler.ts';
import { FakeUpstream } from './fake-upstream.ts';
import { FixedRoutes } from './fixed-routes.ts';

export const POLL_MS = 1_000;

interface Change {
  readonly limits?: Partial<ScalerLimits>;
  readonly maxConcurrentCallsPerConnection?: number;
}

/** A scaler at a real server, with nodes that answer from `queues`. */
export async function startScaler({ limits = {}, ...options }: Change = {}) {
  const queues = new Map<string, Partial<QueueStats>>();
  const upstream = new FakeUpstream();
  upstream.answer = ({ request }) => statsReply(queues, GetQueueStatsRequest.decode(request));
  const nodes = ['a', 'b'].map((name) => ({ nodeId: name, name, address: `${name}:1`, alive: true }));
  const clock = new VirtualClock();
  const log = keptLog();
  const routes = new FixedRoutes({ nodes, partitions: 4 });
  const router = new Router({ routes, upstream, clock, random: new SeededRandom(1), log });
  const scaler = new Scaler(router, { pollIntervalMs: POLL_MS, maxStreams: 100, ...limits });
  const server = await startServer(noService, options, [scaler.unary], [scaler.streaming]);
  onTestFinished(() => server[Symbol.asyncDispose]());
  const client = new ExternalScalerClient(`127.0.0.1:${server.port}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  return { queues, upstream, clock, log, scaler, server, client };
}

function statsReply(all: ReadonlyMap<string, Partial<QueueStats>>, { queues, filter }: GetQueueStatsRequest): Buffer {
  const prefix = filter?.group ? `${filter.group}#` : '';
  const pattern = new RegExp(filter?.nameRegex ?? '');
  const names = queues.length > 0 ? queues : [...all.keys()].filter((name) => name.startsWith(prefix));
  const found = names
    .filter((name) => pattern.test(name))
    .map((queue) => ({ ...QueueStats.decode(new Uint8Array(0)), ...all.get(queue), queue }));
  const sum = (of: 'available' | 'leased'): number => found.reduce((total, stats) => total + stats[of], 0);
  const totals = {
    queues: found.length,
    available: sum('available'),
    leased: sum('leased'),
    delayed: 0,
    waiting: 0,
    completed: 0,
  };
  return encodeToBuffer(GetQueueStatsResponse, { queues: found, totals, unreachable: [] });
}

/** A ScaledObject whose trigger has these metadata. */
export function scaledObject(scalerMetadata: Record<string, string>): ScaledObjectRef {
  return { name: 'workers', namespace: 'shop', scalerMetadata };
}

/** The messages of a stream so far. Nothing that a test does not await is an error. */
export function activityOf(stream: ClientReadableStream<IsActiveResponse>) {
  const told: boolean[] = [];
  const end = Promise.withResolvers<ServiceError | 'complete'>();
  stream.on('data', ({ result }: IsActiveResponse) => told.push(result));
  stream.on('error', (error: ServiceError) => end.resolve(error));
  stream.on('end', () => end.resolve('complete'));
  return { told, end: end.promise, cancel: () => stream.cancel() };
}

/** The error of a call that must fail. */
export async function failureOf(calling: Promise<unknown>): Promise<ServiceError> {
  return calling.then(
    () => expect.unreachable('the call succeeded'),
    (error: ServiceError) => error,
  );
}
