import { describe, expect, test } from 'vitest';
import { createProgram } from '../../../packages/cli/src/main.ts';
import { Runner } from '../../../packages/cli/src/session/session.ts';
import { documentAt, rowsOf } from './documents.ts';
import { noShell } from './no-shell.ts';

type Command = ReturnType<typeof createProgram>['program'];

const { program } = createProgram((made) => new Runner(made, noShell()));

/** The guide's section of a command: the text below its heading, up to the next one. */
function sectionOf(heading: string): { readonly text: string; readonly rows: Readonly<Record<string, string>>[] } {
  const guide = documentAt('docs/reference/cli.md').text;
  const [, text] = new RegExp(`^#+ ${heading}\\n(.*?)(?=^#+ |$(?![\\s\\S]))`, 'ms').exec(guide) ?? [];
  if (text === undefined) throw new Error(`the guide has no section ${heading}`);
  return { text, rows: rowsOf({ path: heading, text }).filter((row) => 'option' in row) };
}

/** The defaults in the guide's table, by long option name; undefined if the table has no such column. */
function optionsIn(heading: string): Map<string, string | undefined> {
  const { text, rows } = sectionOf(heading);
  const own = rows.flatMap(({ option = '', default: byDefault }) =>
    [...option.matchAll(/--[a-z-]+/g)].map(([long]): [string, string | undefined] => [long, byDefault]),
  );
  // `the filters of [queues](#queues-1)`, `chosen as for [stats](#stats)`.
  const others = [...text.matchAll(/\b(?:filters of|chosen as for)\s\[([a-z-]+)\]/g)].flatMap(([, name = '']) => [
    ...optionsIn(name),
  ]);
  return new Map([...others.map(([long]): [string, undefined] => [long, undefined]), ...own]);
}

/** The default in the help text. */
function defaultOf({ description, defaultValue, defaultValueDescription }: Command['options'][number]): string {
  const [, told] = /\(default: (.*)\)$/.exec(description) ?? [];
  return told ?? defaultValueDescription ?? (defaultValue === undefined ? '' : String(defaultValue));
}

const plain = (text: string): string => text.replaceAll('`', '').toLowerCase();

const commands = [
  ...program.commands
    .filter(({ commands }) => commands.length === 0)
    .map((one): [string, Command] => [one.name(), one]),
  ...program.commands.flatMap((parent) =>
    parent.commands.map((one): [string, Command] => {
      // The default subcommand is described under the name of its command.
      return [one.name() === 'list' ? parent.name() : `${parent.name()} ${one.name()}`, one];
    }),
  ),
];

describe('the guide of the command line', () => {
  test.each(commands)('has exactly the options of %s, with their defaults', (heading, { options }) => {
    const told = optionsIn(heading);
    const longs = options.map(({ long }) => long ?? '');
    expect([...told.keys()].toSorted()).toEqual(longs.toSorted());
    for (const option of options) {
      const inGuide = told.get(option.long ?? '');
      if (inGuide === undefined) continue;
      const inHelp = plain(defaultOf(option));
      const isSame = inHelp === '' || plain(inGuide).includes(inHelp) || inHelp.includes(plain(inGuide));
      expect(isSame, `${option.long}: '${inGuide}' in the guide, '${inHelp}' in help`).toBe(true);
      if (/^\d/.test(inGuide)) expect(inHelp, `${option.long} in help`).not.toBe('');
    }
  });

  test.each(commands)('knows that the help of %s has examples', (_heading, command) => {
    let help = '';
    command
      .configureOutput({
        writeOut: (text) => {
          help += text;
        },
      })
      .outputHelp();
    expect(help).toContain('Examples:\n');
  });

  test('has the options of all commands', () => {
    const told = [...optionsIn('For all commands').keys()];
    expect(told.toSorted()).toEqual([...program.options.map(({ long }) => long ?? ''), '--help'].toSorted());
  });
});
