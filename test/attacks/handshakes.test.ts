import type { IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { join } from 'node:path';
import { connect } from '@taskmaster/client';
import { certificateFiles, TestAuthority } from '@taskmaster/server/testing/certificates';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { latenciesOf, shownLatencies } from '../support/latencies.ts';
import { startProcess } from '../support/processes/child-process.ts';
import { startNode } from '../support/processes/start-node.ts';
import { slowness } from '../support/slowness.ts';

const IN_FLIGHT = 200;
/** Figures that mean something need 4000, and a quiet machine. */
const MEASURED_MS = Number(process.env.TASKMASTER_MEASURED_MS ?? 500);

/** Handshakes that the node has completed. */
async function handshakesAt(port: number, ca: string): Promise<number> {
  const reply = Promise.withResolvers<IncomingMessage>();
  const asked = get({ host: '127.0.0.1', port, path: '/metrics', ca }, reply.resolve).once('error', reply.reject);
  const body = (await (await reply.promise).toArray()).join('');
  asked.destroy();
  return Number(/^taskmaster_tls_handshakes_total\{result="completed"\} (\d+)$/m.exec(body)?.[1]);
}

test('a flood of TLS handshakes does not keep a connected client from its calls', async () => {
  const authority = await TestAuthority.create();
  await using files = await certificateFiles(await authority.sign({ name: 'node' }), authority.pem);
  const flags = [`--tls-cert-file=${files.certFile}`, `--tls-key-file=${files.keyFile}`];
  await using node = await startNode({ flags });
  await using client = await connect({ endpoints: node.endpoint, tls: { caFile: files.caFile } });
  const queue = client.queue<number>('others');

  const latencies = () => latenciesOf((number) => queue.enqueue(number), MEASURED_MS);
  const alone = await latencies();
  const script = join(import.meta.dirname, 'tenants', 'handshakes.ts');
  await using flood = await startProcess('nice', [
    '-n',
    // Less than the node, but a share of a busy machine, too.
    '5',
    process.execPath,
    script,
    String(node.grpcPort),
    String(IN_FLIGHT),
  ]);
  const completed = (): number => Number(flood.stdout.trim().split('\n').at(-1));
  await eventually(() => expect(completed()).toBeGreaterThan(0));
  const [from, at] = [completed(), performance.now()];
  const beside = await latencies();
  // It tells its number now and then.
  await eventually(() => expect(completed()).toBeGreaterThan(from));
  const perSecond = ((completed() - from) * 1_000) / (performance.now() - at);
  console.log(`${perSecond.toFixed(0)} handshakes/s; alone ${shownLatencies(alone)}; beside ${shownLatencies(beside)}`);
  // The flood went on while the client was measured, as the attacker and the node say.
  expect(completed() - from).toBeGreaterThan(0);
  expect(await handshakesAt(node.httpPort, authority.pem)).toBeGreaterThanOrEqual(completed());
  expect(beside.calls).toBeGreaterThan(0);
  expect(beside.p99).toBeLessThan(2_000 * (await slowness()));
});
