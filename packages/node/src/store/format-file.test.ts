import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { StoreCorruptError, StoreNewerError } from '@taskmaster/engine/ports';
import { fingerprintOf } from '@taskmaster/engine/testing';
import { DATA_FORMAT } from '@taskmaster/proto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type DirectoryFormat, FORMAT_FILE } from './format-file.ts';
import { namesIn, openSmall, put, refusalOf, type TemporaryDirectory, temporaryDirectory } from './test-support.ts';

let dir: TemporaryDirectory;
beforeEach(async () => {
  dir = await temporaryDirectory();
  await using store = await openSmall(dir.path);
  await store.write(put('a'), { sync: true });
});
afterEach(() => dir[Symbol.asyncDispose]());

const path = (): string => join(dir.path, FORMAT_FILE);

async function writeFormat(format: DirectoryFormat): Promise<void> {
  const body = JSON.stringify(format);
  await writeFile(path(), `${body}\n${crc32(body)}\n`);
}

const readFormat = async (): Promise<unknown> => JSON.parse((await readFile(path(), 'utf8')).split('\n')[0] ?? '');

describe('a directory', () => {
  test('has the format of the release that has created it', async () => {
    expect(await readFormat()).toMatchObject({ format: DATA_FORMAT, writtenBy: '0.0.0' });
  });

  test('of the first format, without the file, is read and gets the format of this release', async () => {
    await rm(path());
    await using store = await openSmall(dir.path);
    expect(await namesIn(store)).toEqual(['a']);
    expect(await readFormat()).toMatchObject({ format: DATA_FORMAT, writtenBy: '0.0.0' });
  });

  test('keeps its file while its format stays the same', async () => {
    const before = await readFile(path(), 'utf8');
    const earlier = { ...(JSON.parse(before.split('\n')[0] ?? '') as DirectoryFormat), writtenBy: '0.0.0-earlier' };
    await writeFormat(earlier);
    await (await openSmall(dir.path)).close();
    expect(await readFormat()).toEqual(earlier);
  });
});

describe('a directory of a newer release', () => {
  const newer = DATA_FORMAT + 2;
  const names = { writtenBy: '7.8.9', readableFrom: '7.6.0' };

  test('is refused before one byte of it changes', async () => {
    await writeFormat({ format: newer, oldestReader: DATA_FORMAT + 1, ...names });
    const before = await fingerprintOf(dir.path);
    const error = await refusalOf(openSmall(dir.path));
    expect(error).toBeInstanceOf(StoreNewerError);
    expect(error.message).toContain(`${dir.path} has data format ${newer}, written by release 7.8.9`);
    expect(error.message).toContain(`this release, 0.0.0, reads data formats up to ${DATA_FORMAT}`);
    expect(error.message).toContain('Start release 7.6.0 or newer');
    expect(await fingerprintOf(dir.path)).toEqual(before);
    expect(before.size).toBeGreaterThan(8);
  });

  test('is used, and keeps its format, if this release can read it', async () => {
    const format = { format: newer, oldestReader: DATA_FORMAT, ...names };
    await writeFormat(format);
    await using store = await openSmall(dir.path);
    expect(await namesIn(store)).toEqual(['a']);
    expect(await readFormat()).toEqual(format);
  });
});

test('a directory with a damaged format is refused before one byte of it changes', async () => {
  const whole = await readFile(path(), 'utf8');
  for (const damaged of [whole.replace(`${DATA_FORMAT}`, `${DATA_FORMAT + 1}`), whole.slice(0, 20), '']) {
    await writeFile(path(), damaged);
    const before = await fingerprintOf(dir.path);
    const error = await refusalOf(openSmall(dir.path));
    expect(error).toBeInstanceOf(StoreCorruptError);
    expect(error.message).toContain(`${path()} is damaged`);
    expect(await fingerprintOf(dir.path)).toEqual(before);
  }
});
