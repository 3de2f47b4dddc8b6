import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readArguments } from '../../../bench/arguments.ts';
import { rows } from '../../../bench/rows/all.ts';
import { createProgram } from '../../../packages/cli/src/main.ts';
import { Runner } from '../../../packages/cli/src/session/session.ts';
import { createProgram as createNodeProgram } from '../../../packages/node/src/cli/program.ts';
import { createProgram as createProxyProgram } from '../../../packages/proxy/src/cli/program.ts';
import { root } from '../../support/paths.ts';
import { blocksOf, documentAt, documents, inlineCodeOf, rowsOf } from './documents.ts';
import { noShell } from './no-shell.ts';

/** A command with the arguments that the shell passes, and its place. */
interface Typed {
  readonly where: string;
  readonly name: string;
  readonly args: readonly string[];
}

const PROGRAMS = ['taskmaster', 'taskmaster-node', 'taskmaster-proxy'] as const;

/**
 * Lets a shell parse the command lines of the documents, and record the calls of our programs with their arguments. It runs
 * no program, because its path is empty.
 */
function typedIn(where: string, text: string): Typed[] {
  const dir = mkdtempSync(join(tmpdir(), 'taskmaster-typed-'));
  try {
    mkdirSync(join(dir, 'bin'));
    mkdirSync(join(dir, '.config', 'fish', 'completions'), { recursive: true });
    const told = [...PROGRAMS, 'npm'].map((name) => `${name}() { printf '%s\\0' ${name} "$@" $'\\x01' >> "$TYPED"; }`);
    const script = [
      ...told,
      // `npx taskmaster ...`; other programs of npx are not ours.
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

/** The command lines of a block: all lines, or those behind a prompt, without the output between them. */
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
  // In sentences NAME is a placeholder, and … leaves something out.
  ...inlineCodeOf(document)
    .filter((code) => /^(npx )?taskmaster(-\w+)? |^npm /.test(code) && !/…|\.\.\.$|[A-Z]{4,}$/.test(code))
    .flatMap((code) => typedIn(document.path, code)),
]);

const typedOf = (name: string): readonly Typed[] => typed.filter((one) => one.name === name);

type Command = ReturnType<typeof createProgram>['program'];

/** Parses commands and calls no node. */
class Reader extends Runner {
  override connected(): Promise<void> {
    return Promise.resolve();
  }

  override local(): Promise<void> {
    return Promise.resolve();
  }
}

async function problemOf(program: Command, { where, args }: Typed): Promise<string | undefined> {
  try {
    // N and TOKEN are placeholders for a number.
    await program.parseAsync(
      args.map((arg) => (arg === 'N' || arg === 'TOKEN' ? '1' : arg)),
      { from: 'user' },
    );
    return undefined;
  } catch (error) {
    const code = error instanceof Error && 'exitCode' in error ? error.exitCode : undefined;
    return code === 0 ? undefined : `${where}: ${program.name()} ${args.join(' ')}: ${error}`;
  }
}

const everyCommandOf = (program: Command): Command[] => [program, ...program.commands.flatMap(everyCommandOf)];

/** The parser of `taskmaster`, which calls no node. */
function reader(write: (text: string) => void = () => {}): Command {
  const { program } = createProgram((made) => new Reader(made, noShell()));
  for (const command of everyCommandOf(program)) command.configureOutput({ writeOut: write });
  return program;
}

/** Removes the actions, so that nothing is started. */
function inert(program: Command): Command {
  for (const command of everyCommandOf(program)) {
    command.exitOverride().configureOutput({ writeOut: () => {}, writeErr: () => {} });
    if (command.commands.length === 0) command.action(() => {});
  }
  return program;
}

describe('commands in documents', () => {
  test('of `taskmaster` are accepted by its parser and by the checks before a call', async () => {
    expect(typedOf('taskmaster').length).toBeGreaterThan(50);
    const problems = [];
    for (const command of typedOf('taskmaster')) problems.push(await problemOf(reader(), command));
    expect(problems.filter((problem) => problem !== undefined)).toEqual([]);
  });

  test('of `taskmaster` in its help texts are accepted, too', async () => {
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

  test('of nodes and proxies are accepted by their parsers', async () => {
    expect(typedOf('taskmaster-node').length).toBeGreaterThan(4);
    expect(typedOf('taskmaster-proxy').length).toBeGreaterThan(1);
    const problems = [];
    for (const command of typedOf('taskmaster-node'))
      problems.push(await problemOf(inert(createNodeProgram('0', () => {})), command));
    for (const command of typedOf('taskmaster-proxy'))
      problems.push(await problemOf(inert(createProxyProgram('0', () => {})), command));
    expect(problems.filter((problem) => problem !== undefined)).toEqual([]);
  });

  test('of npm are scripts of this repository, or install packages', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    const named = typedOf('npm').map(({ args: [first = '', second = ''] }) => (first === 'run' ? second : first));
    expect(named.length).toBeGreaterThan(10);
    expect([...new Set(named)].filter((name) => !(name in scripts) && name !== 'install')).toEqual([]);
  });

  test('of the bench are accepted by its parser, and the document names every row', () => {
    const own = ['peers', 'guard', 'pair', 'paper'];
    const benches = typedOf('npm').filter(({ args }) => args[1] === 'bench' && !own.includes(args[3] ?? ''));
    expect(benches.length).toBeGreaterThan(7);
    for (const { args } of benches) expect(() => readArguments(args.slice(3), rows)).not.toThrow();
    const told = rowsOf(documentAt('bench/README.md')).flatMap(({ row = '' }) => row.replaceAll('`', '').split(', '));
    expect(rows.map(({ name }) => name).filter((name) => !told.includes(name))).toEqual([]);
  });
});

describe('the reader of commands', () => {
  test('parses like a shell', () => {
    expect(
      typedIn('x', `taskmaster get 'a b' --raw > f.json && find . | npx taskmaster enqueue q "$(echo)" \\\n  --lines`),
    ).toEqual([
      { where: 'x', name: 'taskmaster', args: ['get', 'a b', '--raw'] },
      { where: 'x', name: 'taskmaster', args: ['enqueue', 'q', '', '--lines'] },
    ]);
    expect(shellOf({ language: 'console', text: '$ a \\\n    b\nprinted\n$ c\n' })).toBe('a \\\n    b\nc');
  });
});
