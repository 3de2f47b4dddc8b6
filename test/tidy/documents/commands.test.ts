import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readArguments } from '../../../bench/arguments.ts';
import { rows } from '../../../bench/rows/all.ts';
import { createProgram } from '../../../packages/client/src/cli/main.ts';
import { Runner } from '../../../packages/client/src/cli/session.ts';
import { createProgram as createNodeProgram } from '../../../packages/node/src/cli/program.ts';
import { createProgram as createProxyProgram } from '../../../packages/proxy/src/cli/program.ts';
import { root } from '../../support/paths.ts';
import { blocksOf, documentAt, documents, inlineCodeOf, rowsOf } from './documents.ts';
import { noShell } from './no-shell.ts';

/** A command as the shell hands it over, with where it stands. */
interface Typed {
  readonly where: string;
  readonly name: string;
  readonly args: readonly string[];
}

const PROGRAMS = ['taskmaster', 'taskmaster-node', 'taskmaster-proxy'] as const;

/**
 * Has a shell read what the documents tell users to type, and write down which of our commands it would run with what. It
 * runs nothing: there are no programs on its path.
 */
function typedIn(where: string, text: string): Typed[] {
  const dir = mkdtempSync(join(tmpdir(), 'taskmaster-typed-'));
  try {
    mkdirSync(join(dir, 'bin'));
    mkdirSync(join(dir, '.config', 'fish', 'completions'), { recursive: true });
    const told = [...PROGRAMS, 'npm'].map((name) => `${name}() { printf '%s\\0' ${name} "$@" $'\\x01' >> "$TYPED"; }`);
    const script = [
      ...told,
      // `npx taskmaster ...`; anything else that npx runs is not ours.
      'npx() { while [[ "$1" == -* ]]; do shift; done; "$@"; }',
      'command_not_found_handle() { return 0; }',
      'fpath=(x "$PWD")',
      text,
    ].join('\n');
    const typed = join(dir, 'typed');
    const env = { PATH: join(dir, 'bin'), HOME: dir, TYPED: typed };
    spawnSync('/bin/bash', ['-O', 'nullglob', '-c', script], { cwd: dir, env, input: '' });
    const words = readFileSync(typed, { encoding: 'utf8', flag: 'a+' }).split('\0');
    const commands: Typed[] = [];
    for (let from = 0, end = words.indexOf('\x01'); end >= 0; from = end + 1, end = words.indexOf('\x01', from)) {
      const [name = '', ...args] = words.slice(from, end);
      commands.push({ where, name, args });
    }
    return commands;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Lines of shell: as they stand, or with a prompt before each and what it printed between. */
function shellOf({ language, text }: { readonly language: string; readonly text: string }): string {
  if (language === 'sh') return text;
  const lines = text.split('\n');
  const typed = lines.filter((line, at) => line.startsWith('$ ') || lines[at - 1]?.endsWith('\\'));
  return typed.map((line) => line.replace(/^\$ /, '')).join('\n');
}

const typed = documents.flatMap((document) => [
  ...blocksOf(document)
    .filter(({ language }) => language === 'sh' || language === 'console')
    .flatMap((block) => typedIn(document.path, shellOf(block))),
  // In sentences NAME stands for one, … for more.
  ...inlineCodeOf(document)
    .filter((code) => /^(npx )?taskmaster(-\w+)? |^npm /.test(code) && !/…|\.\.\.$|[A-Z]{4,}$/.test(code))
    .flatMap((code) => typedIn(document.path, code)),
]);

const of = (name: string): readonly Typed[] => typed.filter((one) => one.name === name);

type Command = ReturnType<typeof createProgram>['program'];

/** Reads commands and asks no node. */
class Reader extends Runner {
  override connected(): Promise<void> {
    return Promise.resolve();
  }
}

async function problemOf(program: Command, { where, args }: Typed): Promise<string | undefined> {
  try {
    // In sentences N stands for a number.
    await program.parseAsync(
      args.map((arg) => (arg === 'N' ? '1' : arg)),
      { from: 'user' },
    );
    return undefined;
  } catch (error) {
    const code = error instanceof Error && 'exitCode' in error ? error.exitCode : undefined;
    return code === 0 ? undefined : `${where}: ${program.name()} ${args.join(' ')}: ${error}`;
  }
}

const everyCommandOf = (program: Command): Command[] => [program, ...program.commands.flatMap(everyCommandOf)];

/** Of `taskmaster`, asking no node. */
function reader(write: (text: string) => void = () => {}): Command {
  const { program } = createProgram((made) => new Reader(made, noShell()));
  for (const command of everyCommandOf(program)) command.configureOutput({ writeOut: write });
  return program;
}

/** Takes the actions away: nothing is begun. */
function inert(program: Command): Command {
  for (const command of everyCommandOf(program)) {
    command.exitOverride().configureOutput({ writeOut: () => {}, writeErr: () => {} });
    if (command.commands.length === 0) command.action(() => {});
  }
  return program;
}

describe('commands in documents', () => {
  test('of `taskmaster` are taken by its parser, and by what commands check before they ask a node', async () => {
    expect(of('taskmaster').length).toBeGreaterThan(50);
    const problems = [];
    for (const command of of('taskmaster')) problems.push(await problemOf(reader(), command));
    expect(problems.filter((problem) => problem !== undefined)).toEqual([]);
  });

  test('of `taskmaster` in its help texts are taken as well', async () => {
    const problems = [];
    for (const command of everyCommandOf(reader())) {
      let help = '';
      everyCommandOf(reader((text) => (help += text)))
        .find((one) => one.name() === command.name())
        ?.outputHelp();
      const examples = help.slice(help.indexOf('Examples:')).replace(/^ {2}/gm, '');
      const typedHere = typedIn(command.name(), shellOf({ language: 'console', text: examples }));
      expect(typedHere.length, command.name()).toBeGreaterThan(0);
      for (const one of typedHere) problems.push(await problemOf(reader(), one));
    }
    expect(problems.filter((problem) => problem !== undefined)).toEqual([]);
  });

  test('of nodes and proxies are taken by their parsers', async () => {
    expect(of('taskmaster-node').length).toBeGreaterThan(4);
    expect(of('taskmaster-proxy').length).toBeGreaterThan(1);
    const problems = [];
    for (const command of of('taskmaster-node'))
      problems.push(await problemOf(inert(createNodeProgram('0', () => {})), command));
    for (const command of of('taskmaster-proxy'))
      problems.push(await problemOf(inert(createProxyProgram('0', () => {})), command));
    expect(problems.filter((problem) => problem !== undefined)).toEqual([]);
  });

  test('of npm are scripts of this repository', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    const named = of('npm').map(({ args: [first = '', second = ''] }) => (first === 'run' ? second : first));
    expect(named.length).toBeGreaterThan(10);
    expect([...new Set(named)].filter((name) => !(name in scripts))).toEqual([]);
  });

  test('of the bench are taken by its parser, and every row is told of', () => {
    const own = ['peers', 'guard', 'paper'];
    const benches = of('npm').filter(({ args }) => args[1] === 'bench' && !own.includes(args[3] ?? ''));
    expect(benches.length).toBeGreaterThan(7);
    for (const { args } of benches) expect(() => readArguments(args.slice(3), rows)).not.toThrow();
    const told = rowsOf(documentAt('bench/README.md')).flatMap(({ row = '' }) => row.replaceAll('`', '').split(', '));
    expect(rows.map(({ name }) => name).filter((name) => !told.includes(name))).toEqual([]);
  });
});

describe('the reader of commands', () => {
  test('reads as a shell does', () => {
    expect(
      typedIn('x', `taskmaster get 'a b' --raw > f.json && find . | npx taskmaster enqueue q "$(echo)" \\\n  --lines`),
    ).toEqual([
      { where: 'x', name: 'taskmaster', args: ['get', 'a b', '--raw'] },
      { where: 'x', name: 'taskmaster', args: ['enqueue', 'q', '', '--lines'] },
    ]);
    expect(shellOf({ language: 'console', text: '$ a \\\n    b\nprinted\n$ c\n' })).toBe('a \\\n    b\nc');
  });
});
