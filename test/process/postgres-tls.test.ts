import { openEmbedded } from '@taskmaster/node';
import { noPostgres, PostgresServer } from '@taskmaster/postgres/testing';
import { type CertificateFiles, certificateFiles, TestAuthority } from '@taskmaster/server/testing/certificates';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

describe.skipIf(noPostgres !== undefined)(
  `TLS to PostgreSQL${noPostgres === undefined ? '' : `: ${noPostgres}`}`,
  () => {
    /** Of the server, signed by `ofServer.caFile` for 127.0.0.1. */
    let ofServer: CertificateFiles;
    /** Of the role `certified`, signed by the same authority. `caFile`: another authority. */
    let ofClient: CertificateFiles;
    let server: PostgresServer;
    beforeAll(async () => {
      const authority = await TestAuthority.create();
      const other = await TestAuthority.create('another authority');
      ofServer = await certificateFiles(await authority.sign({ name: 'database' }), authority.pem);
      ofClient = await certificateFiles(await authority.sign({ name: 'certified' }), other.pem);
      const { dir, certFile, keyFile, caFile } = ofServer;
      for (const path of [dir, certFile, keyFile, caFile]) await PostgresServer.own(path);
      server = await PostgresServer.start({
        settings: [
          'fsync = off',
          'ssl = on',
          `ssl_cert_file = '${certFile}'`,
          `ssl_key_file = '${keyFile}'`,
          `ssl_ca_file = '${caFile}'`,
        ],
        access: [
          'hostssl all certified 127.0.0.1/32 cert',
          'hostssl all encrypted 127.0.0.1/32 trust',
          'hostnossl all encrypted,certified 127.0.0.1/32 reject',
        ],
      });
      for (const role of ['certified', 'encrypted']) {
        await server.query(`CREATE ROLE ${role} LOGIN`);
        await server.query(`CREATE DATABASE ${role} OWNER ${role}`);
      }
    });
    afterAll(async () => {
      await server[Symbol.asyncDispose]();
      await ofServer[Symbol.asyncDispose]();
      await ofClient[Symbol.asyncDispose]();
    });

    const storeOf = (role: string, options: string, host = '127.0.0.1'): string => {
      const files = { CA: ofServer.caFile, OTHER: ofClient.caFile, CERT: ofClient.certFile, KEY: ofClient.keyFile };
      const named = options.replace(/\b(CA|OTHER|CERT|KEY)\b/g, (name) => files[name as keyof typeof files]);
      return server.url(role, role).replace('127.0.0.1', host) + named;
    };

    test.each([
      ['encrypted', '?sslmode=verify-full&sslrootcert=CA', '127.0.0.1'],
      ['encrypted', '?sslmode=verify-ca&sslrootcert=CA', 'localhost'],
      ['encrypted', '?sslmode=require&sslrootcert=CA', 'localhost'],
      ['encrypted', '?sslmode=require', 'localhost'],
      ['certified', '?sslmode=verify-full&sslrootcert=CA&sslcert=CERT&sslkey=KEY', '127.0.0.1'],
    ])('encrypts as %s with %s at %s', async (role, options, host) => {
      await using client = await openEmbedded({ store: storeOf(role, options, host) });
      await client.queue<string>('work').enqueue('one');
      const sessions = `SELECT DISTINCT usename, ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = '${role}'`;
      expect((await server.query(sessions)).rows).toEqual([{ usename: role, ssl: true }]);
    });

    test.each([
      ['encrypted', '', '127.0.0.1', 'no encryption'],
      ['encrypted', '?sslmode=disable', '127.0.0.1', 'no encryption'],
      ['encrypted', '?sslmode=verify-full', '127.0.0.1', 'self-signed certificate in certificate chain'],
      ['encrypted', '?sslmode=verify-full&sslrootcert=OTHER', '127.0.0.1', 'certificate'],
      ['encrypted', '?sslmode=verify-ca&sslrootcert=OTHER', '127.0.0.1', 'certificate'],
      ['encrypted', '?sslmode=require&sslrootcert=OTHER', '127.0.0.1', 'certificate'],
      ['encrypted', '?sslmode=verify-full&sslrootcert=CA', 'localhost', "does not match certificate's altnames"],
      ['certified', '?sslmode=verify-full&sslrootcert=CA', '127.0.0.1', 'requires a valid client certificate'],
      ['encrypted', '?sslmode=verify-full&sslrootcert=/missing.pem', '127.0.0.1', '/missing.pem'],
    ])('does not connect as %s with "%s" at %s', async (role, options, host, problem) => {
      await expect(openEmbedded({ store: storeOf(role, options, host) })).rejects.toThrow(problem);
    });
  },
);
