import { Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { ItemKind, isReason, statusOfReason, type Error as WireError } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import {
  DeadlineExceededError,
  DiskFullError,
  InvalidRequestError,
  isTaskMasterError,
  LastMemberError,
  LeaseExpiredError,
  LeaseLostError,
  MemberAliveError,
  MemberLeftError,
  NoClusterError,
  NotLeasedError,
  OverloadedError,
  TaskExistsError,
  TaskMasterError,
  TaskNotFoundError,
  UnavailableError,
  UnknownMemberError,
} from '../values/errors.ts';
import { errorFromService, errorFromWire } from './wire-errors.ts';

const wire = (fields: Partial<WireError>): WireError => ({
  code: 0,
  reason: '',
  message: 'message',
  metadata: {},
  retryDelayMs: 0,
  items: [],
  ...fields,
});

describe('each reason has the class that callers catch', () => {
  test.each([
    ['LEASE_LOST', LeaseLostError],
    ['LEASE_EXPIRED', LeaseExpiredError],
    ['TASK_NOT_FOUND', TaskNotFoundError],
    ['TASK_EXISTS', TaskExistsError],
    ['NOT_LEASED', NotLeasedError],
    ['DISK_FULL', DiskFullError],
    ['OVERLOADED', OverloadedError],
    ['TOO_MANY_WAITERS', OverloadedError],
    ['NO_CLUSTER', NoClusterError],
    ['UNKNOWN_MEMBER', UnknownMemberError],
    ['MEMBER_LEFT', MemberLeftError],
    ['MEMBER_ALIVE', MemberAliveError],
    ['LAST_MEMBER', LastMemberError],
    ['SHUTTING_DOWN', UnavailableError],
    ['INTERNAL', TaskMasterError],
  ] as const)('%s', (reason, Class) => {
    const error = errorFromWire(wire({ reason, code: statusOfReason[reason] }));
    expect(error.constructor).toBe(Class);
    expect(error).toMatchObject({ reason, name: Class.name === 'TaskMasterError' ? 'TaskMasterError' : Class.name });
  });

  test('every INVALID_ARGUMENT is an InvalidRequestError', () => {
    for (const [reason, code] of Object.entries(statusOfReason)) {
      if (code !== status.INVALID_ARGUMENT) continue;
      expect(errorFromWire(wire({ reason, code }))).toBeInstanceOf(InvalidRequestError);
    }
  });

  test('an unknown reason of a newer node gets the class of its status', () => {
    const error = errorFromWire(wire({ reason: 'MOON_PHASE', code: status.UNAVAILABLE }));
    expect(isReason('MOON_PHASE')).toBe(false);
    expect(error).toBeInstanceOf(UnavailableError);
    expect(error).toMatchObject({ reason: 'MOON_PHASE', retryable: true });
  });
});

test('a refusal says that nothing was changed, which items were at fault, and when to try again', () => {
  const kind = ItemKind.ITEM_KIND_RENEW;
  const items = [{ kind, index: 3, queue: 'q', pid: Buffer.from('a'), reason: 'LEASE_LOST', key: '' }];
  const error = errorFromWire(wire({ reason: 'LEASE_LOST', code: 9, items, retryDelayMs: 250 }));
  expect(error).toMatchObject({
    maybeApplied: false,
    retryDelayMs: 250,
    items: [{ kind: 'renew', index: 3, queue: 'q', reason: 'LEASE_LOST' }],
  });
});

describe('the status of a call', () => {
  const failure = (code: status, metadata = new Metadata()): ServiceError =>
    Object.assign(new Error('grpc'), { code, details: 'details', metadata });

  test('that comes from gRPC itself leaves open whether the call took effect', () => {
    expect(errorFromService(failure(status.UNAVAILABLE))).toMatchObject({
      reason: 'UNAVAILABLE',
      retryable: true,
      maybeApplied: true,
      message: 'details',
    });
    expect(errorFromService(failure(status.DEADLINE_EXCEEDED))).toBeInstanceOf(DeadlineExceededError);
  });

  test('from a proxy that lost the node leaves it open, too', () => {
    const lost = { code: status.UNAVAILABLE, message: 'lost', metadata: {}, retryDelayMs: 0, items: [] };
    expect(errorFromWire({ ...lost, reason: 'OUTCOME_UNKNOWN' })).toMatchObject({
      retryable: true,
      maybeApplied: true,
    });
    expect(errorFromWire({ ...lost, reason: 'HOLDER_UNREACHABLE' })).toMatchObject({
      retryable: true,
      maybeApplied: false,
    });
  });

  test.each(['STORE_FAILED', 'DEADLINE_EXCEEDED', 'CANCELLED', 'INTERNAL'] as const)(
    'of a refusal in the middle of a call leaves it open: %s',
    (reason) => {
      expect(errorFromWire(wire({ reason, code: statusOfReason[reason] }))).toMatchObject({ maybeApplied: true });
    },
  );

  test('of a node that has stopped writing says that nothing was changed', () => {
    const failed = wire({ reason: 'STORE_FAILED', code: status.UNAVAILABLE, metadata: { nothing_changed: 'true' } });
    expect(errorFromWire(failed)).toMatchObject({ retryable: true, maybeApplied: false });
  });

  test('RESOURCE_EXHAUSTED from gRPC means that the answer is too large: the call was applied; repeating does not help', () => {
    const error = errorFromService(failure(status.RESOURCE_EXHAUSTED));
    expect(error).toMatchObject({ retryable: false, maybeApplied: true });
  });

  test('with foreign details counts without them', () => {
    const metadata = new Metadata();
    metadata.set('grpc-status-details-bin', Buffer.from([255, 255, 255]));
    expect(errorFromService(failure(status.NOT_FOUND, metadata))).toMatchObject({ reason: 'NOT_FOUND', code: 5 });
  });
});

test('errors are recognised by their brand, also those of another copy of the library', () => {
  expect(isTaskMasterError(new LeaseLostError('x', { reason: 'LEASE_LOST' }))).toBe(true);
  expect(isTaskMasterError({ [Symbol.for('taskmaster.error')]: true })).toBe(true);
  expect(isTaskMasterError(new Error('x'))).toBe(false);
  expect(isTaskMasterError(undefined)).toBe(false);
});
