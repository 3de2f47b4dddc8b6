import { status } from '@grpc/grpc-js';
import { type Pid, Refusal, type RefusedItem, UpdateRefusal } from '@taskmaster/engine/domain';
import { keptLog } from '@taskmaster/engine/testing';
import { BadRequest, ErrorInfo, ItemKind, RetryInfo, Status, UpdateRefused } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { refusalOf, toCallStatus, toWireError } from './wire-errors.ts';

function detailsOf(refusal: Refusal): Map<string, Uint8Array> {
  const [encoded] = toCallStatus(refusal).metadata.get('grpc-status-details-bin');
  const { details } = Status.decode(encoded as Buffer);
  return new Map(details.map(({ typeUrl, value }) => [typeUrl, value]));
}

function detail<T>(refusal: Refusal, name: string, type: { decode(bytes: Uint8Array): T }): T | undefined {
  const value = detailsOf(refusal).get(`type.googleapis.com/${name}`);
  return value && type.decode(value);
}

function item(index: number, pid = `pid-${index}`): RefusedItem {
  const queue = { group: 'shop', name: 'mail' };
  return {
    kind: ItemKind.ITEM_KIND_DEQUEUE,
    index,
    queue,
    pid: pid as Pid,
    reason: 'LEASE_LOST',
    message: `lost ${index}`,
  };
}

describe('a refusal as a status', () => {
  test('has the status code of its reason, and the reason', () => {
    const refusal = new Refusal('INVALID_PID', 'enqueue[0].pid is empty', { metadata: { field: 'enqueue[0].pid' } });
    expect(toCallStatus(refusal)).toMatchObject({ code: status.INVALID_ARGUMENT, details: 'enqueue[0].pid is empty' });
    expect(detail(refusal, 'google.rpc.ErrorInfo', ErrorInfo)).toEqual({
      reason: 'INVALID_PID',
      domain: 'taskmaster',
      metadata: { field: 'enqueue[0].pid' },
    });
    expect(detail(refusal, 'google.rpc.BadRequest', BadRequest)?.fieldViolations).toEqual([
      { field: 'enqueue[0].pid', description: 'enqueue[0].pid is empty' },
    ]);
    expect(detail(refusal, 'google.rpc.RetryInfo', RetryInfo)).toBeUndefined();
  });

  test.each([
    ['as the refusal says', new Refusal('OVERLOADED', 'busy', { retryDelayMs: 1_250 }), { seconds: 1, nanos: 250e6 }],
    ['by default when it may pass', new Refusal('STARTING', 'opening'), { seconds: 0, nanos: 200e6 }],
  ])('has a retry delay %s', (_what, refusal, retryDelay) => {
    expect(detail(refusal, 'google.rpc.RetryInfo', RetryInfo)).toEqual({ retryDelay });
  });

  test('names every item at fault', () => {
    const refusal = new UpdateRefusal([item(0), item(3)]);
    const items = detail(refusal, 'taskmaster.v1.UpdateRefused', UpdateRefused)?.items;
    expect(items).toMatchObject([
      { kind: ItemKind.ITEM_KIND_DEQUEUE, index: 0, queue: 'shop#mail', reason: 'LEASE_LOST' },
      { kind: ItemKind.ITEM_KIND_DEQUEUE, index: 3, queue: 'shop#mail', reason: 'LEASE_LOST' },
    ]);
  });

  test('fits into the headers of every gRPC implementation, for any number and length of items', () => {
    const rest = Array.from({ length: 10_000 }, (_, index) => item(index + 1, '\xff'.repeat(4096)));
    const refusal = new UpdateRefusal([item(0, '\xff'.repeat(4096)), ...rest]);
    const { metadata, details } = toCallStatus(refusal);
    const [encoded] = metadata.get('grpc-status-details-bin') as [Buffer];
    expect(encoded.toString('base64').length + encodeURI(details).length).toBeLessThan(8192);
    expect(detail(refusal, 'google.rpc.ErrorInfo', ErrorInfo)?.metadata.items).toBe('10001');
    expect(detail(refusal, 'taskmaster.v1.UpdateRefused', UpdateRefused)?.items[0]?.index).toBe(0);
  });

  test('is valid in a header even if the cut message ends within a character', () => {
    const { details } = toCallStatus(new Refusal('INVALID_QUEUE', `${'x'.repeat(510)}😀 and so on`));
    expect(() => encodeURI(details)).not.toThrow();
  });
});

describe('a refusal inside a message', () => {
  test('has the message of the status, with the items', () => {
    expect(toWireError(new UpdateRefusal([item(2)]))).toEqual({
      code: status.FAILED_PRECONDITION,
      reason: 'LEASE_LOST',
      message: 'lost 2',
      metadata: { queue: 'shop#mail', pid: 'pid-2', items: '1' },
      retryDelayMs: 0,
      items: [
        {
          kind: ItemKind.ITEM_KIND_DEQUEUE,
          index: 2,
          queue: 'shop#mail',
          pid: Buffer.from('pid-2'),
          reason: 'LEASE_LOST',
          key: '',
        },
      ],
    });
  });

  test('names a task by its key if the item does', () => {
    const named = { ...item(0), pid: '' as Pid, key: 'order-17' };
    expect(toWireError(new UpdateRefusal([named]))).toMatchObject({
      metadata: { queue: 'shop#mail', key: 'order-17', items: '1' },
      items: [{ pid: Buffer.alloc(0), key: 'order-17' }],
    });
  });
});

describe('the task that a refusal names', () => {
  test.each([
    ['in the text form of its PID', 'a\0\xff', 'hex:6100ff'],
    ['by a long PID', 'x'.repeat(512), 'x'.repeat(512)],
    // Cut, it would be the PID of another task.
    ['without a PID too long to be shown whole', 'x'.repeat(513), undefined],
    ['without bytes too long to be shown whole', '\xff'.repeat(255), undefined],
  ])('is named %s', (_how, pid, shown) => {
    expect(toWireError(new UpdateRefusal([item(0, pid)])).metadata.pid).toBe(shown);
  });
});

describe('an internal fault', () => {
  test('is logged with its stack, which the caller does not get', () => {
    const log = keptLog();
    const fault = new TypeError('secret of the inside');
    const refusal = refusalOf(fault, log);
    expect(refusal.reason).toBe('INTERNAL');
    expect(JSON.stringify(toWireError(refusal))).not.toContain('secret');
    expect(log.lines).toMatchObject([{ level: 'error', details: { err: fault } }]);
  });

  test('differs from a cancelled wait', () => {
    const log = keptLog();
    expect(refusalOf(new DOMException('aborted', 'AbortError'), log).reason).toBe('CANCELLED');
    expect(log.lines).toEqual([]);
  });
});
