import { BulkAction, BulkFilter, BulkSpec, encodeToBuffer, methods, StartBulkRunRequest } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { aBulkFilter, aBulkSpec } from '../grpc/testing/requests.ts';
import { decodeCall } from './codec.ts';

function lengthDelimited(field: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([(field << 3) | 2, content.byteLength]), content]);
}

/** A field that no release knows. */
const NEW_FIELD = Buffer.from([15 << 3, 1]);

describe('a start of a bulk run', () => {
  const request: StartBulkRunRequest = {
    id: 'run',
    queues: 'shop#mail',
    spec: aBulkSpec({
      action: BulkAction.BULK_ACTION_CANCEL,
      filter: aBulkFilter({
        minAgeMs: 1,
        headers: { all: [{ key: 'k', test: { $case: 'exists', value: false } }] },
      }),
    }),
    preview: false,
    allTasks: false,
  };
  const bytes = encodeToBuffer(StartBulkRunRequest, request);

  test('is read as it was sent', () => {
    expect(decodeCall(methods.startBulkRun, bytes)).toEqual(request);
  });

  const spec = encodeToBuffer(BulkSpec, aBulkSpec());
  const filter = encodeToBuffer(BulkFilter, aBulkFilter({ minAgeMs: 1 }));
  test.each([
    ['of its own', Buffer.concat([bytes, NEW_FIELD])],
    ['in its spec', lengthDelimited(3, spec, NEW_FIELD)],
    ['in its filter', lengthDelimited(3, lengthDelimited(2, filter, NEW_FIELD))],
  ])('with a field %s that this release does not know is refused', (_where, message) => {
    expect(() => decodeCall(methods.startBulkRun, message)).toThrow(
      expect.objectContaining({ reason: 'MALFORMED_REQUEST', message: expect.stringContaining('does not know') }),
    );
  });
});
