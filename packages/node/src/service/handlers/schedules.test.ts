import type { ScheduleEngine, ScheduleView } from '@taskmaster/engine/domain';
import { type GroupRight, hashOfToken, type QueueName } from '@taskmaster/proto';
import { Access, AccessTable } from '@taskmaster/server/access';
import type { Caller } from '@taskmaster/server/calls';
import { aSchedule, bytes } from '@taskmaster/server/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { scheduleHandlers } from './schedules.ts';

const NAME: QueueName = { group: 'shop', name: 'nightly' };
const view: ScheduleView = {
  schedule: NAME,
  record: {
    spec: aSchedule({ data: bytes('secret'), headers: { key: 'secret' }, pidPrefix: bytes('secret') }),
    paused: true,
    createdUnixMs: 1,
    changedUnixMs: 2,
    decidedUnixMs: 3,
    anchorUnixMs: 4,
    lastRunUnixMs: 5,
    lastPid: bytes('secret'),
    triggeredPid: bytes('secret'),
    runs: 6,
    missed: 7,
    skipped: 8,
    triggered: 9,
  } as ScheduleView['record'],
  nextRuns: [1_000],
};

async function callerWith(...allow: GroupRight[]): Promise<Caller> {
  const principals = [{ name: 'p', tokens: [hashOfToken('tm_p')], rights: [{ groups: ['shop'], allow }] }];
  const access = await new Access({ table: new AccessTable({ principals }) }).identify({
    kind: 'bearer',
    token: 'tm_p',
  });
  return { address: '', access, gone: false, signal: undefined };
}

const textOf = (reply: unknown): string =>
  JSON.stringify(reply, (_key, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString() : value,
  );

let handlers: ReturnType<typeof scheduleHandlers>;
beforeEach(() => {
  const schedules = {
    put: async () => ({ result: 2, view }),
    pause: async () => view,
  } as Partial<ScheduleEngine> as ScheduleEngine;
  handlers = scheduleHandlers({ schedules });
});

describe('a caller that may enqueue but not read', () => {
  test.each([true, false])('pauses (%s) a schedule and sees nothing of what it does', async (paused) => {
    const caller = await callerWith('enqueue');
    const reply = await handlers.pauseSchedule({ schedule: 'shop#nightly', paused }, caller);
    expect(textOf(reply)).not.toContain('secret');
    expect(reply.schedule).toMatchObject({ schedule: 'shop#nightly', paused: true, nextRunsUnixMs: [1_000], runs: 0 });
  });

  test('puts a schedule and sees its own spec, not what earlier ones have done', async () => {
    const spec = aSchedule({ queue: 'shop#mail' });
    const { schedule } = await handlers.putSchedule({ schedule: 'shop#nightly', spec }, await callerWith('enqueue'));
    expect(schedule).toMatchObject({ spec: view.record.spec, lastPid: new Uint8Array(0), runs: 0 });
  });
});

test('a caller that may also read sees all of a schedule', async () => {
  const caller = await callerWith('enqueue', 'read');
  const { schedule } = await handlers.pauseSchedule({ schedule: 'shop#nightly', paused: true }, caller);
  expect(schedule).toMatchObject({ spec: view.record.spec, lastPid: bytes('secret'), runs: 6 });
});
