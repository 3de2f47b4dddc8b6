import { setImmediate } from 'node:timers/promises';
import { StreamRequest } from '@taskmaster/proto';
import { unlimitedAccess } from '../../access/caller-access.ts';
import type { Caller } from '../../calls/caller.ts';
import type { StreamOperation, StreamSession } from '../../calls/raw-service.ts';
import { collectGarbage } from './collect-garbage.ts';
import { aLease, anEnqueue, anUpdate, bytes } from './requests.ts';

const CALLER: Caller = { address: '127.0.0.1:1', access: unlimitedAccess, gone: false, signal: undefined };

/** Whether a waiting lease keeps its message, which also has an update, in memory. */
export async function waitingLeaseKeepsMessage(session: StreamSession): Promise<boolean> {
  const { lease, message } = read(session);
  void lease.run(CALLER);
  // The target of a new weak reference lives until the end of the turn.
  await setImmediate();
  collectGarbage();
  const isKept = message.deref() !== undefined;
  // The lease is used here, so that it lives until now, as it does until it is answered.
  return lease.id > 0 && isKept;
}

function read(session: StreamSession) {
  const calls = [
    { id: 1, call: { $case: 'update' as const, value: anUpdate({ enqueue: [anEnqueue()] }) } },
    { id: 2, call: { $case: 'lease' as const, value: aLease({ maxPid: bytes('z'), waitMs: 60_000 }) } },
  ];
  const encoded = StreamRequest.encode({ calls }).finish();
  const message = Buffer.from(new ArrayBuffer(encoded.length));
  message.set(encoded);
  const lease = session.read(message).find(isLease);
  if (lease === undefined) throw new TypeError('the lease was not read');
  return { lease, message: new WeakRef(message.buffer) };
}

const isLease = (operation: StreamOperation): operation is StreamOperation & { readonly kind: 'waiting' } =>
  operation.kind === 'waiting';
