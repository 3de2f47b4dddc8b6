import { PassThrough, Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { OutputError, writeOutput } from './write-output.ts';

function failing(code: string): Writable {
  const stream = new Writable({ write: (_chunk, _encoding, done) => done(Object.assign(new Error(code), { code })) });
  return stream.on('error', () => {});
}

test('output is written', async () => {
  const stream = new PassThrough();
  await writeOutput('text', stream);
  expect(String(stream.read())).toBe('text');
});

test.each(['ENOSPC', 'EDQUOT', 'EACCES'])('output that is lost fails the command: %s', async (code) => {
  await expect(writeOutput('text', failing(code))).rejects.toThrow(OutputError);
});

test.each(['EPIPE', 'EIO'])('output that nothing reads does not: %s', async (code) => {
  await writeOutput('text', failing(code));
});
