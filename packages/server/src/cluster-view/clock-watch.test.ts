import { keptLog, VirtualClock, VirtualTime } from '@taskmaster/engine/testing';
import { describe, expect, test } from 'vitest';
import { ClockWatch } from './clock-watch.ts';
import type { MemberRecord, Members } from './members.ts';

const record = (name: string, state: MemberRecord['state'] = 'active'): MemberRecord => ({
  nodeId: `id-${name}`,
  name,
  state,
  version: 1,
  rpcAddress: '',
  gossipAddress: '',
  removedBy: '',
});

function setUp(...records: MemberRecord[]) {
  const clock = new VirtualClock({ time: new VirtualTime() });
  const log = keptLog();
  const members: Members = new Map(records.map((one) => [one.nodeId, one]));
  const watch = new ClockWatch({ clock, log, members: () => members });
  const hear = (name: string, aheadMs: number): void => {
    // The engine's clock of a member may differ from its system clock.
    watch.heard(`id-${name}`, { nowMs: 1, wallMs: clock.wall() + aheadMs }, clock.wall());
  };
  const hearEarlier = (name: string, aheadMs: number): void => {
    watch.heard(`id-${name}`, { nowMs: clock.wall() + aheadMs, wallMs: 0 }, clock.wall());
  };
  return { clock, log, watch, hear, hearEarlier };
}

describe('the system clocks of members', () => {
  test('are reported once for each change, and once more when they agree again', () => {
    const { log, hear } = setUp(record('b'));
    const hour = 3_600_000;
    for (const aheadMs of [500, -2_000, hour, hour, hour + 5_000, 7 * hour, 45_000, 1_000, 1_000, -hour])
      hear('b', aheadMs);
    expect(log.lines.map(({ level, message }) => [level, message])).toEqual([
      ['warn', 'the system clock of member b is 3600 s ahead of this one: set the wrong one right, as with NTP'],
      ['warn', 'the system clock of member b is 25200 s ahead of this one: set the wrong one right, as with NTP'],
      ['info', 'the system clock of member b agrees with this one again'],
      ['warn', 'the system clock of member b is 3600 s behind this one: set the wrong one right, as with NTP'],
    ]);
  });

  test('are compared at the middle of the time that the question took', () => {
    const { clock, watch } = setUp(record('b'));
    watch.heard('id-b', { nowMs: 1, wallMs: clock.wall() }, clock.wall() - 800);
    expect(watch.differences).toMatchObject([{ member: 'b', aheadMs: 400 }]);
  });

  test('count while they are members', () => {
    const { watch, hear, hearEarlier } = setUp(record('b'), record('c', 'left'));
    for (const name of ['b', 'c', 'stranger']) hear(name, 7_000);
    expect(watch.differences.map(({ member, aheadMs }) => [member, aheadMs])).toEqual([['b', 7_000]]);
    // The engine's clock is all that an earlier release tells.
    hearEarlier('b', 9_000);
    expect(watch.differences).toMatchObject([{ member: 'b', aheadMs: 9_000 }]);
  });

  test('keep no call from being forwarded, unless most of the others have an earlier release', () => {
    const { watch, hear, hearEarlier } = setUp(record('b'), record('c'));
    hear('b', 3_600_000);
    hear('c', -3_600_000);
    expect(watch.refusal).toBeUndefined();
    hearEarlier('b', 3_600_000);
    expect(watch.refusal).toBeUndefined();
    hearEarlier('c', 3_600_000);
    expect(watch.refusal).toBe(
      'its system clock is more than five minutes off the clocks of b, c: set the wrong clock right, as with NTP',
    );
    hearEarlier('b', 240_000);
    expect(watch.refusal).toBeUndefined();
  });
});
