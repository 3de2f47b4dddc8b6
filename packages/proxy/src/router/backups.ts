import { existingPartition } from '@taskmaster/engine/domain';
import { methods } from '@taskmaster/proto';
import { requireClusterRight, type StreamingHandler } from '@taskmaster/server/calls';
import { createBackupService, type StreamingService } from '@taskmaster/server/grpc';
import { decodeCall } from '@taskmaster/server/requests';
import type { BackupUpstream } from '../upstream/upstream.ts';
import { peerOf } from './routed-peer.ts';
import type { Router } from './routing/router.ts';

/** A backup service that forwards each call to the holder of the partition. */
export function createBackupForwarding(router: Router, upstream: BackupUpstream): StreamingService {
  return createBackupService(forwardBackups(router, upstream));
}

/** The handler of `createBackupForwarding`. */
export function forwardBackups(router: Router, upstream: BackupUpstream): StreamingHandler {
  return async function* (request, caller) {
    const { partition: number } = decodeCall(methods.backupPartition, request);
    const partition = existingPartition(number, router.partitions);
    requireClusterRight(caller.access, methods.backupPartition);
    const { signal, access } = caller;
    const peer = peerOf(caller);
    const open = (holder: string): AsyncIterable<Uint8Array> =>
      upstream.backupPartition(holder, request, { signal, peer, access });
    const leftMs = caller.deadline - Date.now();
    const until = Number.isFinite(leftMs) ? router.clock.now() + leftMs : undefined;
    const waiting = {
      signal,
      until,
      get gone() {
        return caller.gone;
      },
    };
    yield* router.streamFromHolder(partition, open, waiting);
  };
}
