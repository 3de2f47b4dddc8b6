import { Refusal } from '@taskmaster/engine/domain';
import { type ListSchedulesRequest, MissedRuns, Schedule, ScheduleSpec } from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import { toWireError } from '@taskmaster/server/calls';
import { type ScheduleReads, schedulesApi } from '@taskmaster/server/http';
import { describe, expect, test } from 'vitest';
import { schedulesPage } from './schedules-page.ts';

const HOUR = 3_600_000;
const NOW = Date.parse('2030-01-01T00:00:00Z');

const nightly = (schedule: string, change: Partial<Schedule> = {}, spec: Partial<ScheduleSpec> = {}): Schedule => ({
  ...Schedule.decode(new Uint8Array(0)),
  schedule,
  spec: {
    ...ScheduleSpec.decode(new Uint8Array(0)),
    queue: 'shop#reports',
    cron: '0 3 * * *',
    timeZone: 'Europe/Berlin',
    data: Buffer.from('secret'),
    missedRuns: MissedRuns.MISSED_RUNS_ONCE,
    ...spec,
  },
  nextRunsUnixMs: [NOW + 2 * HOUR],
  ...change,
});

/** A listing of these schedules, and the requests for it. */
function listing(schedules: readonly Schedule[], nextPageToken = '') {
  const asked: ListSchedulesRequest[] = [];
  const reads: ScheduleReads = {
    listSchedules: async (request) => {
      asked.push(request);
      if (request.group === 'bad#') throw new Refusal('INVALID_QUEUE', 'group is "bad#"');
      if (Number.isNaN(request.limit)) throw new Refusal('INVALID_ARGUMENT', 'limit is NaN');
      return { schedules: [...schedules], nextPageToken, unreachable: [] };
    },
  };
  const facts = { version: '1.2.3', grpcAddress: '127.0.0.1:7400', uptimeMs: 61_000 };
  const page = (query = '') =>
    schedulesPage({
      reads,
      access: unlimitedAccess,
      query: new URLSearchParams(query),
      health: { kind: 'serving' },
      facts,
      wall: NOW,
      toWireError: (thrown) => toWireError(thrown as Refusal),
      httpOf: () => undefined,
    });
  return { asked, page, api: (query = '') => schedulesApi(reads, new URLSearchParams(query), unlimitedAccess) };
}

const textOf = (body: string): string => body.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');

describe('the page of schedules', () => {
  test('shows rules, runs and what is paused', async () => {
    const done = { lastRunUnixMs: NOW - HOUR, runs: 12_345, missed: 3, skipped: 2, triggered: 1 };
    const { page } = listing([
      nightly('shop#nightly', done),
      nightly('shop#poll', { nextRunsUnixMs: [] }, { cron: '', timeZone: '', intervalMs: 30_000 }),
      nightly('shop#stopped', { paused: true, nextRunsUnixMs: [] }),
    ]);
    const { status, body } = await page();
    expect(status).toBe(200);
    const shown = textOf(body);
    expect(shown).toContain('shop# nightly shop# reports 0 3 * * * Europe/Berlin in 2h 1h ago 12,345 3 2 1');
    expect(shown).toContain('shop# poll shop# reports every 30s – never – 0 0 0 0');
    expect(shown).toContain('shop# stopped shop# reports 0 3 * * * Europe/Berlin paused – 0 0 0 0');
    expect(body).toContain('<time datetime="2030-01-01T02:00:00.000Z"');
    expect(body).not.toContain('secret');
  });

  test('shows names and rules as text, whatever characters they have', async () => {
    const hostile = '<script>alert(1)</script>';
    const { page } = listing([nightly(`g#${hostile}\u202e`, {}, { cron: hostile, timeZone: hostile, queue: hostile })]);
    const { body } = await page(`group=${encodeURIComponent('"><img src=x>')}`);
    expect(body).not.toMatch(/<script>alert|<img/);
    expect(body).toContain('&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}');
    expect(body).toContain('value="&quot;&gt;&lt;img src=x&gt;"');
  });

  test('asks for one group, and goes on where the page before has ended', async () => {
    const { page, asked } = listing([nightly('shop#nightly')], 'next');
    const { body } = await page('group=shop&page_token=before');
    expect(asked).toEqual([{ schedule: '', group: 'shop', nextRuns: 1, limit: 500, pageToken: 'before' }]);
    expect(body).toContain('href="/schedules?group=shop&amp;page_token=next"');
    expect((await listing([nightly('shop#nightly')]).page()).body).not.toContain('page_token');
  });

  test('says how to begin, that a filter hides everything, and why it is refused', async () => {
    const { page } = listing([]);
    expect((await page()).body).toContain('No schedules');
    expect((await page('group=shop')).body).toContain('No schedule matches');
    const { status, body } = await page('group=bad%23');
    expect(status).toBe(400);
    expect(body).toContain('group is &quot;bad#&quot;');
  });

  test('allows nothing but its own style and script, and links the page of queues', async () => {
    const { headers, body } = await listing([nightly('shop#nightly')]).page();
    const policy = headers?.['content-security-policy'] ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain('unsafe');
    expect(body).not.toMatch(/ style=| on\w+=|https?:/);
    expect(body).toContain('<a id="page-Queues" href="/">Queues</a>');
    expect(body).toContain('href="/schedules" aria-current="page"');
  });
});

describe('schedules as JSON', () => {
  test('come as a page, without their data', async () => {
    const { api, asked } = listing([nightly('shop#nightly', { runs: 3 })], 'next');
    const { body } = await api('group=shop&next_runs=2&limit=5&page_token=abc');
    expect(asked).toEqual([{ schedule: '', group: 'shop', nextRuns: 2, limit: 5, pageToken: 'abc' }]);
    expect(JSON.parse(body)).toEqual({
      schedules: [
        {
          schedule: 'shop#nightly',
          queue: 'shop#reports',
          cron: '0 3 * * *',
          timeZone: 'Europe/Berlin',
          missedRuns: 'once',
          skipWhileRunning: false,
          paused: false,
          createdUnixMs: 0,
          changedUnixMs: 0,
          runs: 3,
          missed: 0,
          skipped: 0,
          triggered: 0,
          nextRunsUnixMs: [NOW + 2 * HOUR],
        },
      ],
      nextPageToken: 'next',
    });
  });

  test('are of all groups by default', async () => {
    const { api, asked } = listing([]);
    expect(JSON.parse((await api()).body)).toEqual({ schedules: [], nextPageToken: '' });
    expect(asked).toEqual([{ schedule: '', group: undefined, nextRuns: 1, limit: 0, pageToken: '' }]);
  });

  test.each([
    ['an unknown parameter', 'regex=x'],
    ['a parameter given twice', 'group=a&group=b'],
  ])('%s is a bad request', async (_what, query) => {
    const { status, body } = await listing([]).api(query);
    expect(status).toBe(400);
    expect(JSON.parse(body)).toMatchObject({ error: { reason: 'INVALID_ARGUMENT' } });
  });

  test('a limit that is no number is refused', async () => {
    await expect(listing([]).api('limit=many')).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' });
  });
});
