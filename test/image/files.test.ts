import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { root } from '../support/paths.ts';
import { compose, composeFile, postgresCompose } from './compose-file.ts';
import { dataDirectoryOf, dockerfile, imageConfig, programNames } from './dockerfile.ts';

const image = imageConfig();

const linesOf = (file: string): string[] =>
  readFileSync(join(root, file), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));

/** Git finds a name without a slash in every folder, Docker does not. */
function forDocker(pattern: string): string {
  const path = pattern.replace(/\/$/, '');
  if (path.startsWith('/')) return path.slice(1);
  return path.includes('/') ? path : `**/${path}`;
}

test('the build context has nothing that Git ignores', () => {
  expect(linesOf('.dockerignore')).toEqual(expect.arrayContaining(linesOf('.gitignore').map(forDocker)));
});

test('the image starts a program of its own, as a user that is not root', () => {
  expect(image.entryPoint).toEqual([]);
  expect(programNames).toContain(image.command[0]);
  expect(image.user).toMatch(/^[1-9]\d*:[1-9]\d*$/);
  expect(dataDirectoryOf(image.command)).toMatch(`${image.workingDirectory}/`);
});

describe('a service of the compose file', () => {
  const services = Object.entries(compose.services);
  const nodes = services.filter(([, { command }]) => command[0] === 'taskmaster-node');

  test('is made from the Dockerfile', () => {
    for (const [name, { build }] of services) {
      const context = resolve(dirname(composeFile), build.context);
      expect([context, resolve(context, build.dockerfile)], name).toEqual([root, dockerfile]);
    }
  });

  test('runs a program of the image with the rights of the image', () => {
    for (const [name, service] of services) {
      expect(programNames, name).toContain(service.command[0]);
      expect(service, name).toMatchObject({ user: image.user, read_only: true, tmpfs: ['/tmp'], hostname: name });
    }
  });

  test('has its data where the image has it, on a volume of its own', () => {
    for (const [name, { command, volumes }] of nodes) {
      expect(dataDirectoryOf(command), name).toBe(dataDirectoryOf(image.command));
      expect(volumes, name).toEqual([`${name}:${image.workingDirectory}`]);
    }
    expect(Object.keys(compose.volumes)).toEqual(nodes.map(([name]) => name));
  });

  test('publishes ports of the image, on loopback only', () => {
    const published = services.flatMap(([, { ports = [] }]) => ports);
    expect(published.length).toBeGreaterThan(0);
    for (const port of published) {
      const [, inside = ''] = /^127\.0\.0\.1:\d+:(\d+)$/.exec(port) ?? [];
      expect(image.ports, port).toContain(inside);
    }
  });

  test('knows all nodes by their names', () => {
    const all = `--join=${nodes.map(([name]) => `${name}:7400`).join(',')}`;
    for (const [name, { command }] of services) expect(command, name).toContain(all);
  });
});

describe('the compose file with a database', () => {
  const services = Object.entries(postgresCompose.services);
  const ours = services.flatMap(([name, service]) => ('build' in service ? [{ name, service }] : []));
  const nodes = ours.filter(({ service }) => service.command[0] === 'taskmaster-node');

  test('builds our programs as the other compose file does, and runs them with the rights of the image', () => {
    expect(ours.length).toBe(services.length - 1);
    for (const { name, service } of ours) {
      expect(service.build, name).toEqual(compose.services['node-0']?.build);
      expect(programNames, name).toContain(service.command[0]);
      expect(service, name).toMatchObject({ user: image.user, read_only: true, tmpfs: ['/tmp'], hostname: name });
    }
  });

  test('has volumes for the database only', () => {
    expect(services.flatMap(([, { volumes = [] }]) => volumes)).toEqual(['database:/var/lib/postgresql/data']);
    expect(Object.keys(postgresCompose.volumes)).toEqual(['database']);
    for (const { name, service } of nodes) {
      expect(dataDirectoryOf(service.command), name).toBeUndefined();
      expect(service, name).toMatchObject({ environment: { TASKMASTER_STORE: expect.stringContaining('@database:') } });
    }
  });

  test('publishes ports on loopback only, and knows all nodes by their names', () => {
    for (const port of services.flatMap(([, { ports = [] }]) => ports)) expect(port).toMatch(/^127\.0\.0\.1:/);
    const all = `--join=${nodes.map(({ name }) => `${name}:7400`).join(',')}`;
    for (const { name, service } of ours) expect(service.command, name).toContain(all);
  });
});

test('the paths of the Dockerfile exist', () => {
  const [, manifest = ''] = /require\('\/src\/([^']+)'\)/.exec(readFileSync(dockerfile, 'utf8')) ?? [];
  expect(existsSync(join(root, manifest))).toBe(true);
  const { devDependencies } = JSON.parse(readFileSync(join(root, manifest), 'utf8')) as { devDependencies: object };
  expect(devDependencies).toHaveProperty('@aws-sdk/client-s3');
});
