import { EnqueueMode, methods, PeekKind } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import type { Transport } from '../../transport/transport.ts';
import { bytes, enqueue, get, lease, QUEUE, release, text } from './transport-requests.ts';

/** The part of the transport contract about headers. */
export function headersContract(start: () => Promise<AsyncDisposable & { readonly transport: Transport }>): void {
  test('headers come with the data, are shown with it, and are replaced with it', async () => {
    await using world = await start();
    const { transport } = world;
    const headers = {
      tenant: 'acme',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      none: '',
    };
    const shown = async (includeData: boolean): Promise<object> => ({
      ...(await transport.unary(methods.getTasks, get('a', includeData))).tasks[0]?.headers,
    });
    await transport.unary(methods.updateTasks, enqueue('a', { headers }));
    expect(await shown(true)).toEqual(headers);
    expect(await shown(false)).toEqual({});
    const { tasks } = await transport.unary(methods.leaseTasks, lease());
    expect({ ...tasks[0]?.headers }).toEqual(headers);
    expect(text(tasks[0]?.data)).toBe('data of a');
    await transport.unary(methods.updateTasks, release('a', tasks[0]?.leaseToken));
    await transport.unary(
      methods.updateTasks,
      enqueue('a', { headers: { tenant: 'b' }, mode: EnqueueMode.ENQUEUE_MODE_REPLACE }),
    );
    const peek = { queue: QUEUE, kind: PeekKind.PEEK_KIND_HEAD, limit: 1, includeData: true, afterPid: bytes('') };
    const [first] = (await transport.unary(methods.peekTasks, peek)).tasks;
    expect([{ ...first?.headers }, text(first?.data)]).toEqual([{ tenant: 'b' }, 'data of a']);
    await transport.unary(methods.updateTasks, enqueue('a', { mode: EnqueueMode.ENQUEUE_MODE_REPLACE }));
    expect(await shown(true)).toEqual({});
  });
}
