import { handle, type LeasedTask, type Queue } from '@taskmaster/client';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { workerSetUp } from './support/worker-set-up.ts';

interface Mail {
  readonly to: string;
}
interface Resize {
  readonly source: string;
  readonly width: number;
}
interface Thumb {
  readonly url: string;
}

function setUp() {
  const made = workerSetUp();
  const { client } = made;
  return {
    ...made,
    mail: client.queue<Mail>('g#mail'),
    resize: client.queue<Resize>('g#images', { kind: 'resize@2' }),
    thumb: client.queue<Thumb>('g#images', { kind: 'thumb@1' }),
    /** All its tasks. */
    images: client.queue<unknown>('g#images'),
  };
}

describe('workers with a handler for each queue', () => {
  test('run each task by its queue or its kind, with the data of its type', async () => {
    const { client, mail, resize, thumb, images, heard, timing } = setUp();
    await mail.enqueue({ to: 'ann' });
    await resize.enqueue({ source: 'a.png', width: 3 });
    await thumb.enqueue({ url: 'b.png' });
    await images.enqueue({ url: 'c.png' }, { kind: 'other' });
    await using workers = client.workers(
      [
        handle(mail, ({ data }) => {
          expectTypeOf(data).toEqualTypeOf<Mail>();
          heard.push(`mail to ${data.to}`);
        }),
        handle(resize, async ({ data, kind }) => {
          expectTypeOf(data).toEqualTypeOf<Resize>();
          heard.push(`${kind} ${data.source} to ${data.width}`);
        }),
        handle(thumb, async (task) => {
          expectTypeOf(task).toEqualTypeOf<LeasedTask<Thumb>>();
          heard.push(`${task.kind} ${task.data.url}`);
        }),
      ],
      {
        onTaskCompleted: (task) => {
          expectTypeOf(task.data).toEqualTypeOf<Mail | Resize | Thumb>();
          heard.push('done');
        },
      },
    );
    workers.start();
    await timing.settled();
    expect(heard.filter((one) => one !== 'done').toSorted()).toEqual([
      'mail to ann',
      'resize@2 a.png to 3',
      'thumb@1 b.png',
    ]);
    expect(heard.filter((one) => one === 'done')).toHaveLength(3);
    expect(await images.stats()).toMatchObject({ available: 1 });
  });

  test('have options of their own, and else those of all', async () => {
    const { client, mail, resize, timing, engine } = setUp();
    const batches: number[] = [];
    await mail.enqueueMany(['ann', 'bob', 'eve'].map((to) => ({ data: { to } })));
    await using workers = client.workers(
      [
        handle(mail, (tasks) => void batches.push(tasks.length), { batch: { max: 3 }, workerLabel: 'mails' }),
        handle(resize, () => {}, { concurrency: 2, leaseDuration: undefined }),
      ],
      { concurrency: 7, leaseDuration: '10s', workerLabel: 'all' },
    );
    expect(workers.workers.map(({ concurrency }) => concurrency)).toEqual([7, 2]);
    workers.start();
    await timing.settled();
    expect(batches).toEqual([3]);
    const asked = engine.leases.map(({ queues, workerLabel, leaseDurationMs, kinds }) => [
      ...[queues[0], workerLabel, leaseDurationMs],
      kinds?.patterns[0],
    ]);
    expect(asked).toContainEqual(['g#mail', 'mails', 10_000, undefined]);
    expect(asked).toContainEqual(['g#images', 'all', 10_000, 'resize@2']);
  });

  test('are paused, resumed, awaited and wrapped together', async () => {
    const { client, mail, thumb, heard, timing } = setUp();
    await using workers = client
      .workers([
        // Each stage enqueues for the other one.
        handle(mail, ({ data }) => ({ enqueue: data.to === '' ? [] : [thumb.task({ url: data.to.slice(1) })] })),
        handle(thumb, ({ data }) => ({ enqueue: data.url === '' ? [] : [mail.task({ to: data.url.slice(1) })] })),
      ])
      .use(async ({ queue }, next) => {
        heard.push(queue);
        await next();
      });
    workers.start();
    await mail.enqueue({ to: 'aaaa' });
    await workers.untilIdle();
    expect(heard).toHaveLength(5);
    expect(workers.active).toBe(0);
    await workers.pause();
    expect(workers.isPaused).toBe(true);
    await mail.enqueue({ to: '' });
    await timing.settled();
    expect(heard).toHaveLength(5);
    workers.resume();
    await workers.untilIdle();
    expect(heard).toHaveLength(6);
    await workers.stop();
    workers.start();
    await mail.enqueue({ to: '' });
    await workers.untilIdle();
    expect(heard).toHaveLength(7);
  });

  const wrong: readonly (readonly [
    what: string,
    make: (given: ReturnType<typeof setUp>) => unknown,
    problem: string,
  ])[] = [
    ['no handlers', ({ client }) => client.workers([]), 'at least one queue with its handler'],
    ['a queue without handle', ({ client, mail }) => client.workers([mail as never]), 'as handle() makes them'],
    [
      'two handlers of a queue',
      ({ client, mail }) => client.workers([handle(mail, () => {}), handle('g#mail', () => {})]),
      'g#mail has two handlers',
    ],
    [
      'two handlers of a kind',
      ({ client, resize }) => client.workers([handle(resize, () => {}), handle(resize, () => {})]),
      'g#images has two handlers',
    ],
    [
      'a handler of all kinds beside one of a kind',
      ({ client, resize, images }) => client.workers([handle(resize, () => {}), handle(images, () => {})]),
      'g#images has two handlers',
    ],
    [
      'batch for all',
      ({ client, mail }) => client.workers([handle(mail, () => {})], { batch: { max: 2 } } as never),
      'give batch to handle()',
    ],
    [
      'a misspelt default',
      ({ client, mail }) => client.workers([handle(mail, () => {})], { concurency: 2 } as never),
      'did you mean concurrency?',
    ],
    [
      'a misspelt option of a handler',
      ({ mail }) => handle(mail, () => {}, { prefech: 2 } as never),
      'did you mean prefetch?',
    ],
    [
      'queues of several kinds with one handler',
      ({ client, resize, thumb }) => client.worker([resize, thumb], () => {}),
      'use client.workers',
    ],
    [
      'a lease of several kinds',
      ({ client, resize, thumb }) => client.lease({ queues: [resize, thumb] }),
      'use client.workers',
    ],
  ];
  test.each(wrong)('are refused: %s', (_what, make, problem) => {
    expect(() => make(setUp())).toThrow(problem);
  });
});

describe('a queue of one kind', () => {
  test('gives its tasks their kind, and leases and shows no others', async () => {
    const { resize, thumb, images } = setUp();
    await thumb.enqueue({ url: 'b.png' });
    await resize.enqueueMany([{ data: { source: 'a.png', width: 1 } }]);
    expect(resize.kind).toBe('resize@2');
    expect((await resize.peek()).map(({ data, kind }) => [data.source, kind])).toEqual([['a.png', 'resize@2']]);
    expect(await images.peek()).toHaveLength(2);
    const [task] = await resize.lease({ max: 9 });
    expect(task?.data.width).toBe(1);
    expect(await resize.lease({ kinds: ['thumb@1'] })).toHaveLength(1);
  });

  test('has its own schema', async () => {
    const { client, timing, heard } = setUp();
    const schema = z.object({ at: z.iso.datetime().transform((text) => new Date(text)) });
    const dated = client.queue('g#images', { kind: 'dated', schema });
    expectTypeOf(dated).toExtend<Queue<{ at: Date }, { at: string }>>();
    await expect(dated.enqueue({ at: 'soon' })).rejects.toMatchObject({ reason: 'INVALID_DATA' });
    await dated.enqueue({ at: '2030-01-01T00:00:00Z' });
    await using workers = client.workers([handle(dated, ({ data }) => void heard.push(data.at.toISOString()))]);
    workers.start();
    await timing.settled();
    expect(heard).toEqual(['2030-01-01T00:00:00.000Z']);
  });
});

describe('defaults of a queue', () => {
  test('are for enqueues that do not say otherwise', async () => {
    const { client, timing } = setUp();
    const later = client.queue<string>('g#later', {
      defaults: { delay: '1h', retry: { maxAttempts: 3 }, headers: { tenant: 'acme' }, timeLimit: '5m' },
    });
    await later.enqueue('a', { pid: 'a' });
    await later.enqueue('b', { pid: 'b', delay: 0, retry: { maxAttempts: 1 }, timeLimit: undefined });
    await later.enqueue('c', { pid: 'c', runAt: new Date(timing.now() + 5_000) });
    await client
      .update()
      .enqueue(later, 'd', { pid: 'd' })
      .enqueue(later.task('e', { pid: 'e' }))
      .commit();
    await later.enqueueMany([{ data: 'f', pid: 'f' }]);
    const shown = await later.get(['a', 'b', 'c', 'd', 'e', 'f']);
    expect(shown.map(({ retry }) => retry?.maxAttempts)).toEqual([3, 1, 3, 3, 3, 3]);
    expect(shown.map(({ timeLimitMs }) => timeLimitMs)).toEqual(shown.map(() => 300_000));
    const hiddenFor = shown.map(({ hiddenUntil }) => (hiddenUntil?.getTime() ?? timing.now()) - timing.now());
    expect(hiddenFor).toEqual([3_600_000, 0, 5_000, 3_600_000, 3_600_000, 3_600_000]);
    expect(shown.every(({ headers }) => headers.tenant === 'acme')).toBe(true);
  });

  test.each([
    [{ delya: '1h' }, 'did you mean delay?'],
    [{ pid: 'a' }, 'there is no pid'],
    [{ kind: 'a' }, 'there is no kind'],
    ['1h', 'must be an object'],
  ])('are not %j', (defaults, problem) => {
    const { client } = setUp();
    expect(() => client.queue('q', { defaults: defaults as never })).toThrow(problem);
  });
});
