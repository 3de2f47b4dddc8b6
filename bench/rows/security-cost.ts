import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hashOfToken, newToken } from '@taskmaster/proto';
import { certificateFiles, TestAuthority } from '@taskmaster/server/testing/certificates';
import { compete } from '../contest.ts';
import { type Load, onNode, type Way } from '../contestants.ts';
import { round } from '../machine.ts';
import { cpuRatioOf, versus } from '../measurement.ts';
import type { ServerProcess } from '../processes.ts';
import type { Row } from '../row.ts';

const loads: readonly (readonly [name: string, load: Load])[] = [
  ['B1', { kind: 'enqueue', via: 'unary', batch: 1, inFlight: 500 }],
  ['B3', { kind: 'enqueue', via: 'client', batch: 1, inFlight: 500 }],
  ['B6', { kind: 'lease-complete', via: 'client', batch: 50, inFlight: 10 }],
];

/** The rules of a service that may do everything with its queues, and has quotas that it does not reach. */
const rulesFor = (token: string): string =>
  JSON.stringify({
    principals: [
      {
        name: 'bench',
        tokens: [hashOfToken(token)],
        rights: [{ groups: ['*'], allow: ['enqueue', 'lease', 'read', 'manage-queues'] }],
        limits: { connections: 1_000, requestsPerSecond: 1_000_000, bytesInFlight: 1_000_000_000, waiters: 1_000_000 },
      },
    ],
    groups: [{ groups: ['*'], limits: { tasks: 1_000_000_000, bytes: 1_000_000_000_000, queues: 1_000_000 } }],
  });

/** What TLS costs, and what rules of access with quotas cost beside it. */
export const securityCost: Row = {
  name: 'security',
  about: 'B1, B3, B6 with TLS 1.3 against plain text, and with a token, rules and quotas against TLS alone',
  when: 'all',
  async *run(bench) {
    const authority = await TestAuthority.create();
    await using files = await certificateFiles(await authority.sign({ name: 'node' }), authority.pem);
    const token = newToken();
    const accessFile = join(await bench.processes.directory(), 'access.yaml');
    await writeFile(accessFile, rulesFor(token));
    await chmod(accessFile, 0o600);
    const { caFile } = files;
    const withTls = [`--tls-cert-file=${files.certFile}`, `--tls-key-file=${files.keyFile}`];
    const plain = await bench.processes.node();
    const secure = await bench.processes.node(undefined, withTls);
    const guarded = await bench.processes.node(undefined, [...withTls, `--access-file=${accessFile}`]);
    const wayTo = (name: string, { endpoint, pid }: ServerProcess, credentials: Way['credentials'] = {}): Way => ({
      name,
      endpoint,
      serverPids: [pid],
      group: '',
      credentials,
    });
    const tls = wayTo('tls', secure, { caFile });
    const rules = wayTo('rules', guarded, { caFile, token });
    for (const [name, load] of loads) {
      for (const [what, measured, baseline] of [
        ['tls', onNode(bench, secure, load, tls), onNode(bench, plain, load)],
        ['rules', onNode(bench, guarded, load, rules), onNode(bench, secure, load, tls)],
      ] as const) {
        const [ours, theirs] = await compete(bench, [measured, baseline]);
        const more = { cpu_ratio: round(cpuRatioOf(ours, theirs, false), 3) };
        yield versus({ row: 'security', variant: `${name} ${what}`, load: bench.load, more }, ours, theirs);
      }
    }
    for (const node of [guarded, secure, plain]) await node.stop();
  },
};
