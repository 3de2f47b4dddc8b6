import { inspect } from 'node:util';
import type { ThreadHandler } from '@taskmaster/client';

type Order = { readonly do: string; readonly value?: number };

const failed = (name: string, message: string, more: object = {}): Error =>
  Object.assign(new Error(message, { cause: new TypeError('the cause') }), { name, ...more });

/** The handler of the tests of handlers in threads. It does what the data says. */
const handler: ThreadHandler<Order> = async (task) => {
  const { do: what, value = 0 } = task.data;
  switch (what) {
    case 'return':
      return {
        result: { twice: value * 2, id: task.id, pid: Buffer.from(task.pid).toString(), attempt: task.attempt },
      };
    case 'log':
      return { result: [JSON.stringify(task), inspect(task, { breakLength: Number.POSITIVE_INFINITY })] };
    case 'enqueue':
      return { enqueue: [{ queue: 'g#next', data: { value }, pid: 'next', headers: { by: task.queue } }] };
    case 'misspell':
      return { enqueue: [{ queue: 'g#next', data: 1, dealy: 1 } as never] };
    case 'function':
      return { result: () => {} };
    case 'throw':
      throw failed('ConnectionError', 'no answer');
    case 'give up':
      throw failed('UnrecoverableError', 'no such order');
    case 'exit':
      process.exit(3);
      break;
    case 'crash':
      setImmediate(() => {
        throw new RangeError('nobody catches this');
      });
      return new Promise(() => {});
    case 'exhaust memory': {
      const all: number[][] = [];
      for (;;) all.push(new Array(100_000).fill(1));
    }
    case 'report':
      await task.reportProgress(`${task.previousProgress ?? 'nothing'} before`);
      await task.checkpoint(Buffer.from('half'));
      await task.reportProgress('x'.repeat(300)).catch((error: Error) => task.reportProgress(error.name));
      throw new Error('later');
    case 'wait for the abort':
      return new Promise((_resolve, reject) => {
        const { signal } = task;
        signal.addEventListener('abort', () =>
          reject(failed('Stopped', `${signal.reason.name} ${signal.reason.cancelReason}`)),
        );
      });
    case 'block':
      for (;;);
  }
  return undefined;
};

export default handler;
