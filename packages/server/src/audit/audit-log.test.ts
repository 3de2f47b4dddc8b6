import { VirtualClock } from '@taskmaster/engine/testing';
import { beforeEach, expect, test } from 'vitest';
import type { AuditEvent } from '../ports/audit.ts';
import { AuditLog } from './audit-log.ts';

const said: string[] = [];
const log = {
  debug: () => {},
  info: () => {},
  warn: (details: object) => void said.push(`warn ${JSON.stringify(details)}`),
  error: (_: object, message: string) => void said.push(`error ${message}`),
};

const deletion: AuditEvent = {
  kind: 'management',
  action: 'DeleteQueue',
  target: 'shop#mail',
  result: 'ok',
  principal: 'billing',
  address: '10.0.0.7:5000',
};
const refusal: AuditEvent = { ...deletion, kind: 'refusal', result: 'PERMISSION_DENIED' };

let clock: VirtualClock;
let lines: Record<string, unknown>[];
let isFull: boolean;
let audit: AuditLog;
beforeEach(() => {
  said.length = 0;
  lines = [];
  isFull = false;
  clock = new VirtualClock();
  audit = new AuditLog({
    clock,
    log,
    append: (line) => {
      if (isFull) throw new Error('ENOSPC');
      lines.push(JSON.parse(line) as Record<string, unknown>);
    },
  });
});

test('a line says who did what, when, from where, with which result', () => {
  audit.record({ ...deletion, via: '10.0.0.2:6000', details: { acceptLoss: true } });
  expect(lines).toEqual([
    { time: expect.stringMatching(/^\d{4}-.*Z$/), ...deletion, via: '10.0.0.2:6000', acceptLoss: true },
  ]);
});

test('refusals that repeat are counted: one caller, whatever its port, has two lines in ten seconds', async () => {
  for (let port = 5_000; port < 5_100; port++) {
    audit.record({ ...refusal, address: `10.0.0.7:${port}`, target: `queue ${port}` });
  }
  audit.record({ ...refusal, address: '10.0.0.8:1' });
  expect(lines).toHaveLength(2);
  await clock.advance(10_000);
  expect(lines.map(({ address, count }) => [address, count])).toEqual([
    ['10.0.0.7:5000', undefined],
    ['10.0.0.8:1', undefined],
    ['10.0.0.7:5000', 99],
  ]);
});

test('changes that are refused for another reason are counted in the same way, whatever they name', async () => {
  for (let name = 0; name < 1_000; name++) {
    audit.record({ ...deletion, action: 'RemoveMember', target: `member ${name}`, result: 'UNKNOWN_MEMBER' });
  }
  await clock.advance(10_000);
  expect(lines.map(({ target, result, count }) => [target, result, count])).toEqual([
    ['member 0', 'UNKNOWN_MEMBER', undefined],
    ['member 0', 'UNKNOWN_MEMBER', 999],
  ]);
});

test('refusals of very many callers use bounded memory and lines', async () => {
  for (let caller = 0; caller < 10_000; caller++) audit.record({ ...refusal, address: `host-${caller}:1` });
  await clock.advance(10_000);
  expect(lines.length).toBeLessThan(300);
  expect(lines.reduce((sum, { count = 1 }) => sum + Number(count), 0)).toBe(10_000);
});

test('each change of another queue and each change of a member has its line', () => {
  for (const target of ['a', 'b', 'c']) audit.record({ ...deletion, target });
  for (let time = 0; time < 2; time++) {
    audit.record({ kind: 'membership', action: 'left', target: 'node-1', result: 'ok' });
  }
  expect(lines.map(({ target }) => target)).toEqual(['a', 'b', 'c', 'node-1', 'node-1']);
});

test('each bulk run has its line, also of the same queue', () => {
  for (const run of ['1', '2', '2'])
    audit.record({ ...deletion, action: 'BulkRunEnded', details: { run, changed: 7 } });
  expect(lines.map(({ run, changed }) => [run, changed])).toEqual([
    ['1', 7],
    ['2', 7],
  ]);
});

test('a disk that is full stops nothing: the lines go to the log of the program', () => {
  isFull = true;
  audit.record({ ...deletion, target: 'a' });
  audit.record({ ...deletion, target: 'b' });
  isFull = false;
  audit.record({ ...deletion, target: 'c' });
  expect(lines.map(({ target }) => target)).toEqual(['c']);
  expect(said.map((line) => line.split(' ')[0])).toEqual(['error', 'warn', 'warn']);
  expect(said[2]).toContain('"target":"b"');
});

test('the end records what was counted', () => {
  for (let time = 0; time < 3; time++) audit.record(refusal);
  audit.close();
  expect(lines.map(({ count }) => count)).toEqual([undefined, 2]);
});

test('characters that a terminal obeys are escaped', () => {
  const written: string[] = [];
  const escaping = new AuditLog({ clock, log, append: (line) => void written.push(line) });
  const target = 'shop#\u202email\u2028\u009b2J\u0007';
  escaping.record({ ...deletion, target });
  expect(written[0]).toMatch(/^[ -~]+$/);
  expect(JSON.parse(written[0] ?? '')).toMatchObject({ target });
});

test('changes of others do not hide who was refused', async () => {
  for (let name = 0; name < 1_000; name++) audit.record({ ...deletion, target: `queue ${name}` });
  audit.record({ ...refusal, principal: 'intruder' });
  expect(lines.at(-1)).toMatchObject({ action: 'DeleteQueue', result: 'PERMISSION_DENIED', principal: 'intruder' });
});

test('refusals of very many callers do not hide which principals were refused', async () => {
  for (let caller = 0; caller < 1_000; caller++) {
    audit.record({ ...refusal, principal: undefined, address: `host-${caller}:1` });
  }
  for (let time = 0; time < 3; time++) audit.record({ ...refusal, principal: 'intruder' });
  await clock.advance(10_000);
  const ofIntruder = lines.filter(({ principal }) => principal === 'intruder');
  expect(ofIntruder.map(({ action, count }) => [action, count])).toEqual([
    ['various', undefined],
    ['various', 2],
  ]);
});

test('long texts of callers are cut, wherever they are', () => {
  const long = 'x'.repeat(1_000_000);
  audit.record({ ...refusal, target: long, details: { queue: long } });
  expect(JSON.stringify(lines).length).toBeLessThan(10_000);
});
