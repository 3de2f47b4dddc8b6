import { certificateFiles, TestAuthority } from '@taskmaster/server/testing/certificates';
import { compete } from '../contest.ts';
import { type Load, onNode } from '../contestants.ts';
import { round } from '../machine.ts';
import { cpuRatioOf, versus } from '../measurement.ts';
import type { Row } from '../row.ts';

const loads: readonly (readonly [name: string, load: Load])[] = [
  ['B1', { kind: 'enqueue', via: 'unary', batch: 1, inFlight: 500 }],
  ['B3', { kind: 'enqueue', via: 'client', batch: 1, inFlight: 500 }],
  ['B6', { kind: 'lease-complete', via: 'client', batch: 50, inFlight: 10 }],
];

/** What TLS costs. */
export const tlsCost: Row = {
  name: 'tls',
  about: 'B1, B3, B6 with TLS 1.3, against a node that speaks plain text',
  when: 'all',
  async *run(bench) {
    const authority = await TestAuthority.create();
    await using files = await certificateFiles(await authority.sign({ name: 'node' }), authority.pem);
    const plain = await bench.processes.node();
    const flags = [`--tls-cert-file=${files.certFile}`, `--tls-key-file=${files.keyFile}`];
    const secure = await bench.processes.node(undefined, flags);
    const way = { name: 'tls', endpoint: secure.endpoint, serverPids: [secure.pid], group: '', caFile: files.caFile };
    for (const [name, load] of loads) {
      const [measured, baseline] = await compete(bench, [onNode(bench, secure, load, way), onNode(bench, plain, load)]);
      const more = { cpu_ratio: round(cpuRatioOf(measured, baseline, false), 3) };
      yield versus({ row: 'tls', variant: name, load: bench.load, more }, measured, baseline);
    }
    await secure.stop();
    await plain.stop();
  },
};
