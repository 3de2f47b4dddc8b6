import { Argument, type Command, type Option } from 'commander';
import type { Runner } from '../session/session.ts';
import { notesOf } from '../views/help.ts';

type Shell = 'bash' | 'zsh' | 'fish';

const notes = `
Examples:
  $ source <(taskmaster completion bash)
  $ taskmaster completion zsh > "\${fpath[1]}/_taskmaster"
  $ taskmaster completion fish > ~/.config/fish/completions/taskmaster.fish`;

export function addCompletion(program: Command, runner: Runner): void {
  program
    .command('completion')
    .summary('print a completion script for a shell')
    .description('Prints a script that completes commands and options.')
    .addArgument(new Argument('<shell>', 'name of the shell').choices(['bash', 'zsh', 'fish']))
    .addHelpText('after', notesOf(notes))
    .action((shell: Shell) => runner.shell.out.write(scripts[shell](program)));
}

const scripts: Readonly<Record<Shell, (program: Command) => string>> = { bash, zsh, fish };

function bash(program: Command): string {
  const name = program.name();
  const cases = program.commands.map((command) => {
    const options = words([...optionsOf(command), ...program.options]);
    return `    ${command.name()}) words="${options}" names="${commandNames(command)}" ;;`;
  });
  return `_${name}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" command="" word words names=""
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case " ${commandNames(program)} " in *" $word "*) command="$word"; break ;; esac
  done
  case "$command" in
    "") words="${commandNames(program)} ${words(program.options)}" ;;
${cases.join('\n')}
  esac
  if [[ "$current" == -* || -z "$command" || -n "$names" ]]; then
    COMPREPLY=($(compgen -W "$names $words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
complete -o filenames -F _${name} ${name}
`;
}

function zsh(program: Command): string {
  const name = program.name();
  const commands = program.commands.map((command) => `    ${quoted(`${command.name()}:${command.summary()}`)}`);
  const cases = program.commands.map((command) => {
    const names = commandNames(command);
    const operands = names === '' ? "'*:argument:_files'" : `'*:command:(${names})'`;
    return `    ${command.name()}) _arguments ${zshOptions(command, program)} ${operands} ;;`;
  });
  return `#compdef ${name}
_${name}() {
  local -a commands
  commands=(
${commands.join('\n')}
  )
  local word command=""
  for word in "\${(@)words[2,CURRENT-1]}"; do
    if (( \${commands[(I)$word:*]} )); then command="$word"; break; fi
  done
  case "$command" in
    "") _describe command commands; _arguments ${zshOptions(program, undefined)} ;;
${cases.join('\n')}
  esac
}
compdef _${name} ${name}
`;
}

function fish(program: Command): string {
  const name = program.name();
  const lines = [`complete -c ${name} -n __fish_use_subcommand -f`];
  for (const option of program.options) lines.push(`complete -c ${name} ${fishOption(option)}`);
  for (const command of program.commands) {
    const summary = quoted(command.summary());
    lines.push(`complete -c ${name} -n __fish_use_subcommand -f -a ${command.name()} -d ${summary}`);
    const within = `complete -c ${name} -n '__fish_seen_subcommand_from ${command.name()}'`;
    for (const option of optionsOf(command)) lines.push(`${within} ${fishOption(option)}`);
    for (const part of command.commands) lines.push(`${within} -f -a ${part.name()} -d ${quoted(part.summary())}`);
  }
  return `${lines.join('\n')}\n`;
}

function zshOptions(command: Command, program: Command | undefined): string {
  const options = program === undefined ? command.options : [...optionsOf(command), ...program.options];
  return options
    .map(({ long, description, required }) => {
      const text = description.replace(/[[\]:]/g, ' ');
      return quoted(`${long}[${text}]${required ? ':value:_files' : ''}`);
    })
    .join(' ');
}

function fishOption({ long, short, description, required }: Option): string {
  const parts = [long === undefined ? '' : `-l ${long.slice(2)}`, short === undefined ? '' : `-s ${short.slice(1)}`];
  return [...parts, required ? '-r' : '', `-d ${quoted(description)}`].filter((part) => part !== '').join(' ');
}

/** Options of a command and of all its subcommands. */
function optionsOf(command: Command): readonly Option[] {
  return [command, ...command.commands].flatMap(({ options }) => options);
}

function commandNames(program: Command): string {
  return program.commands.map((command) => command.name()).join(' ');
}

function words(options: readonly Option[]): string {
  return options.flatMap(({ long, short }) => [long, short].filter((flag) => flag !== undefined)).join(' ');
}

/** The text in single quotes, for a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
