import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as client from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import { parseSync } from 'oxc-parser';
import { describe, expect, test } from 'vitest';
import { connectTimeoutMs } from '../../../packages/client/src/transport/grpc-transport.ts';
import { clientSettings } from '../../../packages/client/src/values/options.ts';
import { workerSettings } from '../../../packages/client/src/worker/worker-options.ts';
import { root } from '../../support/paths.ts';
import { documentAt, inlineCodeOf, rowsOf } from './documents.ts';

const reference = documentAt('docs/reference/client.md');

/** The fields of an interface in the client's sources, with their comments. */
function membersOf(file: string, name: string): Map<string, string> {
  const path = join(root, 'packages/client/src', file);
  const source = readFileSync(path, 'utf8');
  const { program, comments } = parseSync(path, source);
  for (const node of program.body) {
    const declared = node.type === 'ExportNamedDeclaration' ? node.declaration : node;
    if (declared?.type !== 'TSInterfaceDeclaration' || declared.id.name !== name) continue;
    return new Map(
      declared.body.body.flatMap((member): [string, string][] => {
        if (member.type !== 'TSPropertySignature' || member.key.type !== 'Identifier') return [];
        const comment = comments.findLast(({ end }) => end <= member.start);
        return [[member.key.name, comment?.value ?? '']];
      }),
    );
  }
  throw new Error(`${file} has no interface ${name}`);
}

/** The table of options below the line with this beginning: option → default. */
function optionsBelow(line: string): Map<string, string> {
  const from = reference.text.indexOf(`\n${line}`);
  if (from < 0) throw new Error(`the reference has no line that begins with ${line}`);
  const [table = ''] = /^\|.*?(?=\n\n|$(?![\s\S]))/ms.exec(reference.text.slice(from)) ?? [];
  const rows = rowsOf({ path: line, text: table });
  return new Map(
    rows.flatMap(({ option = '', default: byDefault = '' }) =>
      [...option.matchAll(/`(\w+)`/g)].map(([, name = '']): [string, string] => [name, byDefault]),
    ),
  );
}

function lengthOf(ms: number): string {
  if (ms >= 3_600_000) return `${ms / 3_600_000} h`;
  if (ms >= 60_000) return `${ms / 60_000} min`;
  return ms >= 1_000 ? `${ms / 1_000} s` : `${ms} ms`;
}

const settings = clientSettings({});
const worker = workerSettings({});

describe("the client's reference", () => {
  test.each([
    [
      '`connect(endpoints)` or',
      [
        ['values/options.ts', 'GrpcOptions'],
        ['values/options.ts', 'TokenOptions'],
        ['values/options.ts', 'ClientOptions'],
      ],
    ],
    [
      '`queue.enqueue(data, { … })`',
      [
        ['tasks/new-task.ts', 'TaskOptions'],
        ['tasks/links.ts', 'LinkOptions'],
        ['tasks/given-fields.ts', 'GivenOptions'],
      ],
    ],
    [
      '`client.schedules.put(name, { … })`',
      [
        ['api/schedules.ts', 'ScheduleOptions'],
        ['tasks/given-fields.ts', 'GivenOptions'],
      ],
    ],
    ['`queue.lease({ … })`', [['tasks/lease-tasks.ts', 'LeaseOptions']]],
    ['`client.worker(queues, handler, { … })`', [['worker/worker-options.ts', 'WorkerOptions']]],
    ['`spread(queues, { … })`', [['api/spread/spread-queue.ts', 'SpreadOptions']]],
    ['`client.matchingQueues({ regex, group }, { … })`', [['api/matching-queues.ts', 'MatchingOptions']]],
  ] as const)('has exactly the options of %s', (line, interfaces) => {
    const inCode = interfaces.flatMap(([file, name]) => [...membersOf(file, name).keys()]);
    expect([...optionsBelow(line).keys()].toSorted()).toEqual(inCode.toSorted());
  });

  test('has the defaults of the code', () => {
    const { retry } = settings;
    const expected: readonly (readonly [line: string, option: string, told: string])[] = [
      ['`connect(endpoints)`', 'timeout', lengthOf(settings.timeoutMs)],
      ['`connect(endpoints)`', 'connectTimeout', lengthOf(connectTimeoutMs({ endpoints: 'a:1' }))],
      [
        '`connect(endpoints)`',
        'retry',
        `${retry.maxAttempts} attempts, ${lengthOf(retry.backoffInitialMs)} up to ${lengthOf(retry.backoffMaxMs)}`,
      ],
      ['`client.worker(', 'concurrency', String(worker.concurrency)],
      ['`client.worker(', 'leaseDuration', `as the settings say, or ${lengthOf(limits.defaultLeaseDurationMs)}`],
      ['`client.worker(', 'maxLeaseTime', lengthOf(worker.maxLeaseMs)],
      ['`client.worker(', 'wait', lengthOf(worker.waitMs)],
    ];
    for (const [line, option, told] of expected) expect(optionsBelow(line).get(option), option).toBe(told);
    expect(workerSettings({ concurrency: 7 }).prefetch).toBe(7);
    expect(optionsBelow('`client.worker(').get('prefetch')).toBe('`concurrency`');
  });

  test('has the defaults that comments in the code name', () => {
    const differing: string[] = [];
    for (const [line, file, name] of [
      ['`connect(endpoints)`', 'values/options.ts', 'GrpcOptions'],
      ['`connect(endpoints)`', 'values/options.ts', 'ClientOptions'],
      ['`client.schedules.put(', 'api/schedules.ts', 'ScheduleOptions'],
      ['`queue.lease({', 'tasks/lease-tasks.ts', 'LeaseOptions'],
      ['`client.worker(', 'worker/worker-options.ts', 'WorkerOptions'],
      ['`spread(queues, {', 'api/spread/spread-queue.ts', 'SpreadOptions'],
    ] as const) {
      for (const [option, comment] of membersOf(file, name)) {
        const told = optionsBelow(line).get(option)?.replaceAll('`', '') ?? '';
        const [, inCode] =
          /Default:? `?([\d,.]+(?: (?:ms|s|min|h|MiB))?|true|false|any)\b/.exec(comment.replace(/\s*\*\s*/g, ' ')) ??
          [];
        if (inCode !== undefined && !told.startsWith(inCode))
          differing.push(`${option}: ${told}, ${inCode} in the code`);
      }
    }
    expect(differing).toEqual([]);
  });

  test('names every error class and the fields of all errors', () => {
    const classes = Object.entries(client).flatMap(([name, value]) =>
      typeof value === 'function' && value.prototype instanceof client.TaskMasterError ? [name] : [],
    );
    const [, told = ''] = /Catch classes:(.*?)Misuse/s.exec(reference.text) ?? [];
    expect(
      [...told.matchAll(/`(\w+)`/g)]
        .map(([, name]) => name)
        .filter((name) => name !== 'client')
        .toSorted(),
    ).toEqual(classes.toSorted());
    const [, fields = ''] = /a `TaskMasterError` with (.*?)\. `/s.exec(reference.text) ?? [];
    const has = Object.keys(new client.TaskMasterError('', { reason: 'INTERNAL' })).filter((key) => key !== 'name');
    expect([...fields.matchAll(/`(\w+)`/g)].map(([, name]) => name).toSorted()).toEqual(has.toSorted());
  });

  test('names existing calls, fields and functions', () => {
    const of: Readonly<Record<string, readonly string[]>> = {
      client: namesOf(client.TaskMasterClient),
      queue: namesOf(client.Queue),
      task: namesOf(client.LeasedTask),
      worker: [...namesOf(client.Worker)],
    };
    const wrong = inlineCodeOf(reference).flatMap((code) => {
      const [, object = '', member = ''] = /^(client|queue|task|worker)\.(\w+)/.exec(code) ?? [];
      return object === '' || of[object]?.includes(member) ? [] : [code];
    });
    expect(wrong).toEqual([]);
    const functions = inlineCodeOf(reference).flatMap(
      (code) => /^(pid\w+|connect|\w+Codec)\b/.exec(code)?.slice(1) ?? [],
    );
    expect(functions.filter((name) => !(name in client) && name !== 'pid' && name !== 'pidPrefix')).toEqual([]);
  });
});

/** Names of the methods, getters and declared fields of a class. */
function namesOf(type: abstract new (...args: never[]) => object): string[] {
  const fields = [...String(type).matchAll(/^\s+(?:readonly )?([a-z]\w*) *;?$/gm)].map(([, name = '']) => name);
  return [...Object.getOwnPropertyNames(type.prototype), ...fields];
}
