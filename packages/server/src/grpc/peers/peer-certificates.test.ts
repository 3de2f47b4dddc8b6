import { keptLog } from '@taskmaster/engine/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { PeerHandlers } from '../../ports/peer-network.ts';
import { type CertificateFiles, certificateFiles, TestAuthority } from '../../testing/tls/certificates.ts';
import { Tls } from '../../tls/tls.ts';
import type { TlsSettings } from '../../tls/tls-files.ts';
import { plainChannels, secureChannels } from '../index.ts';
import { noService, startServer } from '../testing/start-server.ts';
import { PeerNetwork } from './peer-network.ts';
import { PeerSeal } from './peer-seal.ts';
import { createPeerService } from './peer-service.ts';

const NAME = 'members.example';
const KEYS = ['a key'];
const ASKED = { clusterId: 'c', from: 'a', knowledge: { members: [], holders: [] }, release: undefined };
const ANSWER = {
  knowledge: { members: [], holders: [] },
  nodeId: 'b',
  clusterId: 'c',
  partitions: 256,
  nowMs: 5,
  wallMs: 5,
  mayCommit: true,
  release: undefined,
};

let authority: TestAuthority;
let member: CertificateFiles;
let user: CertificateFiles;
beforeAll(async () => {
  authority = await TestAuthority.create();
  member = await certificateFiles(await authority.sign({ name: 'a', dns: [NAME] }), authority.pem);
  user = await certificateFiles(await authority.sign({ name: 'a user' }), authority.pem);
});
afterAll(async () => {
  await member[Symbol.asyncDispose]();
  await user[Symbol.asyncDispose]();
});

function tlsWith({ certFile, keyFile, caFile }: CertificateFiles, peerName = NAME): Tls {
  const more = { clientCertificates: 'optional', minVersion: '1.3', peerName } as const;
  const settings: TlsSettings = { certFile, keyFile, caFile, ...more };
  return new Tls(settings, keptLog());
}

async function startMember(tls: Tls) {
  const handlers: Partial<PeerHandlers> = { exchange: async () => ({ ...ANSWER }) };
  const certificates = { name: NAME, namesOf: (connection: string) => server.server.certificateNames(connection) };
  const peers = createPeerService(() => handlers as PeerHandlers, new PeerSeal(KEYS), certificates);
  const server = await startServer(noService, { tls }, [peers]);
  return server;
}

test('a member answers only callers whose certificate has the name of members', async () => {
  using tls = tlsWith(member);
  await using server = await startMember(tls);
  const address = `127.0.0.1:${server.port}`;
  const exchange = async (files: CertificateFiles) => {
    using own = tlsWith(files);
    using network = new PeerNetwork(new PeerSeal(KEYS), undefined, secureChannels(own));
    return await network.call(address, 'exchange', ASKED, { timeoutMs: 5_000 });
  };
  expect(await exchange(member)).toEqual(ANSWER);
  // It has a key of the cluster, too.
  await expect(exchange(user)).rejects.toMatchObject({ reason: 'UNAUTHENTICATED' });
});

test('an address is checked as an address, without a warning of Node.js', async () => {
  const warnings: (string | undefined)[] = [];
  const note = (warning: Error & { readonly code?: string }): void => void warnings.push(warning.code);
  process.on('warning', note);
  const exchangeWith = async (address: string): Promise<unknown> => {
    await using own = await certificateFiles(
      await authority.sign({ name: 'a', dns: [NAME], ips: [address] }),
      authority.pem,
    );
    using tls = tlsWith(own, '');
    await using server = await startMember(tls);
    using network = new PeerNetwork(new PeerSeal(KEYS), undefined, secureChannels(tls));
    return await network.call(`127.0.0.1:${server.port}`, 'exchange', ASKED, { timeoutMs: 5_000 });
  };
  expect(await exchangeWith('127.0.0.1')).toEqual(ANSWER);
  await expect(exchangeWith('127.0.0.2')).rejects.toThrow("IP: 127.0.0.1 is not in the cert's list");
  process.off('warning', note);
  expect(warnings).toEqual([]);
});

test('a caller that speaks plain text is told that members speak TLS', async () => {
  using tls = tlsWith(member);
  await using server = await startMember(tls);
  using network = new PeerNetwork(new PeerSeal([]), undefined, plainChannels);
  const asked = network.call(`127.0.0.1:${server.port}`, 'exchange', ASKED, { timeoutMs: 5_000 });
  await expect(asked).rejects.toMatchObject({ reason: 'TLS_REQUIRED' });
});
