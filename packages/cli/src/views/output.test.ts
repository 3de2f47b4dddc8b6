import { PassThrough, Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { Messages, Output } from './output.ts';

/** A stream whose writes fail. */
function failing(code: string): Writable {
  return new Writable({
    write: (_chunk, _encoding, done) => done(Object.assign(new Error(`${code}: the message`), { code })),
  });
}

describe('output that cannot be written', () => {
  test.each([
    ['ENOSPC', 'standard output cannot be written: no space is left on the device'],
    ['EDQUOT', 'standard output cannot be written: the quota of the disk is reached'],
    ['EFBIG', 'standard output cannot be written: the file is as large as it may be'],
    ['EACCES', 'standard output cannot be written: EACCES: the message'],
  ])('fails the command with %s', async (code, message) => {
    const out = new Output(failing(code), { json: false });
    await out.line('first');
    await expect(out.flush()).rejects.toMatchObject({ reason: code, message, exitCode: 1 });
    await expect(out.line('second')).rejects.toMatchObject({ reason: code });
    expect(out.closed.aborted).toBe(true);
  });

  test.each(['EPIPE', 'EIO', 'ERR_STREAM_DESTROYED'])('is dropped after the reader has gone: %s', async (code) => {
    const out = new Output(failing(code), { json: false });
    await out.line('first');
    await out.flush();
    await out.line('second');
    expect(out.closed.aborted).toBe(true);
  });
});

test('lines have escapes, blocks and bytes are as they are', async () => {
  const stream = new PassThrough();
  const out = new Output(stream, { json: false });
  await out.line('a\nb\u202e');
  await out.block('a\nb');
  await out.write('\u001b');
  await out.object({ name: 'a\u2028' });
  const err = new Messages(stream);
  err.line('\u001bc');
  err.stack('Error: a\nb');
  err.object({ name: '\u009b' });
  expect(String(stream.read())).toBe(
    'a\\nb\\u{202e}\na\nb\n\u001b{"name":"a\\u2028"}\n\\u{1b}c\n  Error: a\n  b\n{"name":"\\u009b"}\n',
  );
});
