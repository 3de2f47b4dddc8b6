import { createServer } from 'node:net';
import { inspect } from 'node:util';
import { runInNewContext } from 'node:vm';
import { limits } from '@taskmaster/proto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { makeError } from './errors.ts';
import { taskErrorOf } from './task-error.ts';

const SECRET = 's3cr3t';

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

/** An error with one property that throws when it is read. */
const withThrowing = (name: string): Error =>
  Object.defineProperty(new Error('kept'), name, {
    get() {
      throw new Error('no');
    },
  });

const everyTrapThrows = new Proxy(
  {},
  new Proxy(
    {},
    {
      get: () => () => {
        throw new Error('no');
      },
    },
  ),
);

const hostile: readonly (readonly [string, unknown])[] = [
  ['a revoked proxy', revoked()],
  ['a proxy whose traps throw', new Proxy(new Error('hidden'), everyTrapThrows)],
  ['a function behind a revoked proxy', Proxy.revocable(() => {}, {}).proxy],
  ...['name', 'message', 'stack', 'cause', 'errors'].map(
    (name) => [`a ${name} that throws`, withThrowing(name)] as const,
  ),
  ...['name', 'message', 'stack', 'cause'].map(
    (name) => [`a ${name} that is a symbol`, Object.assign(new Error('x'), { [name]: Symbol('odd') })] as const,
  ),
  [
    'a custom form that throws',
    {
      [inspect.custom]() {
        throw new Error('no');
      },
    },
  ],
  [
    'no prototype, and a toString that throws',
    Object.assign(Object.create(null), {
      toString() {
        throw new Error('no');
      },
    }),
  ],
  ['an AggregateError of hostile errors', new AggregateError([revoked(), withThrowing('message')])],
  ['an AggregateError whose list is a revoked proxy', Object.assign(new AggregateError([]), { errors: revoked() })],
  ['a cause that is a revoked proxy', new Error('above', { cause: revoked() })],
  ['an empty text', ''],
  ['a symbol', Symbol('odd')],
  ['nothing', undefined],
  ['null', null],
  ['an empty text', new Error('')],
  ['a function', () => {}],
];

describe('what a task keeps of anything that is thrown', () => {
  test.each(hostile)('is text: %s', (_what, thrown) => {
    const { message, details } = taskErrorOf(thrown);
    expect(message).not.toBe('');
    expect(typeof details).toBe('string');
  });

  test('is bounded text, for any value', () => {
    // Made only when they are thrown, because fast-check looks into values.
    const any = fc
      .anything({ withBigInt: true, withNullPrototype: true, withMap: true, withTypedArray: true })
      .map((value) => () => value);
    const { make } = fc.letrec<{ make: () => unknown }>((tie) => ({
      make: fc.oneof(
        { depthSize: 'medium', withCrossShrink: true },
        any,
        fc.nat(hostile.length - 1).map((at) => () => hostile[at]?.[1]),
        fc.tuple(fc.string(), tie('make')).map(
          ([text, cause]) =>
            () =>
              new Error(text, { cause: cause() }),
        ),
        fc.tuple(fc.string(), fc.array(tie('make'))).map(
          ([text, errors]) =>
            () =>
              new AggregateError(
                errors.map((error) => error()),
                text,
              ),
        ),
        fc.tuple(tie('make'), any).map(
          ([below, value]) =>
            () =>
              Object.assign(new Error('x'), { message: value(), cause: below() }),
        ),
      ),
    }));
    fc.assert(
      fc.property(make, (thrown) => {
        const { message, details } = taskErrorOf(thrown());
        expect(Buffer.byteLength(message)).toBeLessThanOrEqual(limits.errorMessageBytes);
        expect(Buffer.byteLength(details)).toBeLessThanOrEqual(limits.errorDetailsBytes);
      }),
      { numRuns: 500 },
    );
  });

  test('is found soon in huge and endless errors', () => {
    const huge = new AggregateError(Array.from({ length: 10_000 }, () => 'x'.repeat(1_000)));
    huge.message = 'y'.repeat(50_000_000);
    const endless = new Error('a circle');
    endless.cause = new Error('below', { cause: endless });
    const { details } = taskErrorOf(new AggregateError([endless, huge]));
    for (const part of ['yyy', 'xxx', 'a circle', 'below']) expect(details).toContain(part);
  });
});

describe('causes', () => {
  test('of an AggregateError without a message are its message, as of a connection that several addresses refuse', () => {
    const refused = ['::1', '127.0.0.1'].map((address) => new Error(`connect ECONNREFUSED ${address}:5432`));
    const { message, details } = taskErrorOf(new AggregateError(refused));
    expect(message).toBe('AggregateError: connect ECONNREFUSED ::1:5432; connect ECONNREFUSED 127.0.0.1:5432');
    expect(details.match(/caused by Error: connect ECONNREFUSED/g)).toHaveLength(2);
  });

  test('of an AggregateError with a message are kept', async () => {
    const thrown = await Promise.any([Promise.reject(new Error('first')), Promise.reject('second')]).catch((e) => e);
    const { message, details } = taskErrorOf(thrown);
    expect(message).toBe('AggregateError: All promises were rejected');
    expect(details).toContain('caused by Error: first');
    expect(details).toContain('caused by second');
  });

  test.each([
    ['text', 'ECONNRESET', 'caused by ECONNRESET'],
    ['a number', 7, 'caused by 7'],
    ['null', null, 'caused by null'],
    ['an object', { code: 'E1' }, "caused by { code: 'E1' }"],
  ])('that are no errors are kept: %s', (_what, cause, expected) => {
    expect(taskErrorOf(new Error('above', { cause })).details).toContain(expected);
  });

  test('are kept behind long stacks', () => {
    const above = new Error('above', { cause: new Error('the reason') });
    above.stack = `Error: above\n${'    at frame\n'.repeat(1_000)}`;
    expect(taskErrorOf(above).details).toContain('the reason');
  });

  test('of an error while something was disposed of are kept, both', () => {
    const thrown = Object.assign(new Error('suppressed'), {
      name: 'SuppressedError',
      error: new Error('while disposing'),
      suppressed: new Error('before'),
    });
    const { details } = taskErrorOf(thrown);
    expect(details).toContain('while disposing');
    expect(details).toContain('before');
  });
});

describe('errors of other realms', () => {
  test('are errors, without their own properties', () => {
    const thrown: unknown = runInNewContext(
      `const error = new TypeError('no such host', { cause: new RangeError('below') });
       error.headers = { authorization: '${SECRET}' };
       error`,
    );
    expect(thrown).not.toBeInstanceOf(Error);
    const { message, details } = taskErrorOf(thrown);
    expect(message).toBe('TypeError: no such host');
    expect(details).toContain('caused by RangeError: below');
    expect(message + details).not.toContain(SECRET);
  });

  test.each([
    [
      'what looks like an error',
      { name: 'HttpError', message: 'status 401', config: { token: SECRET } },
      'HttpError: status 401',
    ],
    ['an error of a DOM', new DOMException('took too long', 'TimeoutError'), 'TimeoutError: took too long'],
    ['an error of this library', makeError('no', { reason: 'OVERLOADED' }), 'OverloadedError: no'],
  ])('so is %s', (_what, thrown, expected) => {
    const { message, details } = taskErrorOf(thrown);
    expect(message).toBe(expected);
    expect(details).not.toContain(SECRET);
  });
});

test('a real connection that is refused tells why', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  await new Promise((resolve) => server.close(resolve));
  const thrown = await fetch(`http://localhost:${port}`).catch((error: unknown) => error);
  expect(taskErrorOf(thrown).details).toContain('ECONNREFUSED');
});
