import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { HELP } from '../../../bench/arguments.ts';
import { createProgram } from '../../../packages/cli/src/main.ts';
import { Runner } from '../../../packages/cli/src/session/session.ts';
import { nodeSettings } from '../../../packages/node/src/cli/program.ts';
import { proxySettings } from '../../../packages/proxy/src/config.ts';
import { type ConfigSources, loadConfig } from '../../../packages/server/src/program/load-config.ts';
import { configAsYaml } from '../../../packages/server/src/program/print-config.ts';
import type { Setting, SettingsTable } from '../../../packages/server/src/program/settings.ts';
import { entriesOf, valuesSchema } from '../../chart/schema.ts';
import { root } from '../../support/paths.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { documents, inlineCodeOf, rowsOf } from './documents.ts';
import { noShell } from './no-shell.ts';

function sectionOf<C>(title: string, table: SettingsTable<C>): string {
  const defaults = table.safeParse({});
  if (!defaults.success) throw defaults.error;
  return `## ${title}\n\n\`\`\`yaml\n${configAsYaml(table, defaults.data)}\`\`\`\n`;
}

const all: readonly Setting[] = [...nodeSettings.all, ...proxySettings.all];
const sections = new Set(all.flatMap(({ path }) => (path.length > 1 ? path.slice(0, 1) : [])));

describe('settings in documents', () => {
  test('docs/reference/settings.md has all of them (vitest -u writes it)', async () => {
    const text = [
      '# Settings\n',
      'All settings with their meaning and default. Each block is a file for `--config`; `taskmaster-node config print` and',
      '`taskmaster-proxy config print` print it. A test generates this page. [Deploy](../operate/deploy.md#settings) explains how to set',
      'them.\n',
      sectionOf('A node', nodeSettings),
      sectionOf('A proxy', proxySettings),
    ].join('\n');
    await expect(text.trimEnd().concat('\n')).toMatchFileSnapshot(join(root, 'docs/reference/settings.md'));
  });

  test('are printed as a file that gives the same settings', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'node.yaml');
    const load = (sources: Partial<ConfigSources>) =>
      loadConfig(nodeSettings, { env: {}, flags: new Map(), ...sources });
    const config = load({ flags: new Map([['durability', 'relaxed']]) });
    const yaml = configAsYaml(nodeSettings, config);
    writeFileSync(file, yaml);
    expect(load({ file })).toEqual(config);
    const comments = yaml.replaceAll(/\s*\n\s*# /g, ' ');
    for (const { about } of nodeSettings.all) expect(comments).toContain(about);
  });

  test('have names that exist', () => {
    const ofChart = entriesOf(valuesSchema).map(([path]) => path);
    const names = new Set([...all.flatMap(({ path, name }) => [name, path.at(-1) ?? '']), ...ofChart]);
    const isSetting = (code: string): boolean => sections.has(code.split('.')[0] ?? '') && /^\w+\.\w+$/.test(code);
    const unknown = documents.flatMap((document) =>
      inlineCodeOf(document)
        .filter((code) => (isSetting(code) || /^[a-z]+[A-Z]\w*(Ms|Bytes)$/.test(code)) && !names.has(code))
        .filter((code) => !inClient.has(code))
        .map((code) => `${document.path}: ${code}`),
    );
    expect(unknown).toEqual([]);
  });

  test('have flags that exist', () => {
    const { program } = createProgram((made) => new Runner(made, noShell()));
    const options = [program, ...program.commands, ...program.commands.flatMap(({ commands }) => commands)];
    const flags = new Set([
      ...all.map(({ flag }) => flag),
      ...options.flatMap((command) => command.options.map(({ long }) => long ?? '')),
      ...(HELP.match(/--[a-z-]+/g) ?? []),
      '--config',
      '--help',
    ]);
    const unknown = documents
      .filter(({ path }) => !/performance|peers|bench|examples/.test(path))
      .flatMap((document) =>
        inlineCodeOf(document)
          .flatMap((code) => (code.startsWith('--') ? [/^--[\w-]+/.exec(code)?.[0] ?? ''] : []))
          .filter((flag) => !flags.has(flag) && !ofNode.test(flag) && !flag.startsWith('--grpc-'))
          .map((flag) => `${document.path}: ${flag}`),
      );
    expect(unknown).toEqual([]);
  });

  test('have environment variables that a program reads', () => {
    const patterns = ['packages/*/src/**/*.ts', 'test/**/*.ts', 'bench/**/*.ts', 'scripts/*.mjs'];
    const sources = globSync(patterns, { cwd: root, exclude: (path) => /node_modules|documents/.test(path) });
    const read = sources.map((path) => readFileSync(join(root, path), 'utf8')).join('\n');
    const variables = new Set(all.map(({ env }) => env));
    const unknown = documents.flatMap(({ path, text }) =>
      [...text.matchAll(/TASKMASTER_[A-Z_]+[A-Z]/g)]
        .filter(([variable]) => !variables.has(variable) && !read.includes(variable))
        .map(([variable]) => `${path}: ${variable}`),
    );
    expect(unknown).toEqual([]);
  });

  test('have the defaults in tables', () => {
    const wrong: string[] = [];
    let compared = 0;
    for (const { path, table } of [
      { path: 'docs/operate/cluster.md', table: nodeSettings },
      { path: 'docs/operate/proxies.md', table: proxySettings },
    ]) {
      const document = documents.find((one) => one.path === path);
      for (const { setting: cell = '', default: told = '' } of document === undefined ? [] : rowsOf(document)) {
        const flags = [...cell.matchAll(/`(--[\w-]+)`/g)].map(([, flag]) => flag);
        const shown = flags.length === 1 ? [told] : told.split(', ');
        for (const [at, flag] of flags.entries()) {
          const setting = table.all.find((one) => one.flag === flag);
          if (setting === undefined) wrong.push(`${path}: ${flag} is none`);
          else if (!isDefault(setting.default, shown[at] ?? '')) wrong.push(`${path}: ${flag}: ${shown[at]}`);
          compared++;
        }
      }
    }
    expect(wrong).toEqual([]);
    expect(compared).toBeGreaterThan(20);
  });
});

/** Flags of Node itself. */
const ofNode =
  /^--(max-semi-space-size|max-old-space-size|initial-old-space-size|heap-growing-percent|external-memory-accounted-in-global-limit|no-allocation-site-pretenuring|no-lazy-feedback-allocation|invocation-count-for-maglev)$/;

/** Fields of the client, of the command line and of their tests. */
const inClient = new Set(
  globSync('packages/{cli,client}/src/**/*.ts', { cwd: root }).flatMap(
    (path) => readFileSync(join(root, path), 'utf8').match(/\b[a-z]+[A-Z]\w*(?:Ms|Bytes)(?=[?:])/g) ?? [],
  ),
);

/** Compares a default with a cell such as `64 MiB`, `false` or `7402 (proxy 7502)`. Words and empty cells are not compared. */
function isDefault(value: unknown, told: string): boolean {
  const plain = told.replaceAll('`', '').replace(/ \(.*\)$/, '');
  if (typeof value === 'number') {
    const [, digits = '', unit = ''] = /^([\d,]+)(?: ([KMG]iB))?$/.exec(plain) ?? [];
    const bytes = { '': 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 }[unit] ?? Number.NaN;
    return Number(digits.replaceAll(',', '')) * bytes === value;
  }
  if (value === '' || (Array.isArray(value) && value.length === 0)) return !/^[\d`]/.test(told);
  return plain === String(value);
}
