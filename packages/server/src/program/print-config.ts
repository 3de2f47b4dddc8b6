import { Document, isMap, isPair, isScalar, type YAMLMap } from 'yaml';
import { type SettingsTable, settingAt } from './settings.ts';

/** Longest text in one line of a comment. */
const COMMENT_COLUMNS = 96;

/** Lines that follow the description of a setting, by its name. */
type Notes = ReadonlyMap<string, readonly string[]>;

/** The settings as a YAML file for `--config`, with their descriptions and notes. */
export function configAsYaml<C>(table: SettingsTable<C>, config: C, notes: Notes = new Map()): string {
  const document = new Document(config);
  const example = table.all.find(({ path }) => path.length > 1);
  document.commentBefore = comment(
    `Settings of ${table.whose}. Each is also an environment variable and a flag: ${example?.name} is ${example?.env} and ` +
      `${example?.flag}. Flags override the environment, and the environment overrides this file.`,
  );
  if (isMap(document.contents)) explain(table, document.contents, [], notes);
  return document.toString({ lineWidth: 0 });
}

function explain(table: SettingsTable<unknown>, map: YAMLMap, path: readonly string[], notes: Notes): void {
  for (const [index, pair] of map.items.entries()) {
    if (!isPair(pair) || !isScalar(pair.key)) continue;
    const at = [...path, String(pair.key.value)];
    pair.key.spaceBefore = index > 0;
    const setting = settingAt(table, at);
    if (setting !== undefined) {
      const about = comment(`${setting.about} Default: ${JSON.stringify(setting.default)}.`);
      pair.key.commentBefore = [about, ...(notes.get(setting.name) ?? []).map((line) => ` ${line}`)].join('\n');
    }
    if (isMap(pair.value)) explain(table, pair.value, at, notes);
  }
}

/** The text as the lines of a comment, as the YAML library takes them. */
function comment(text: string): string {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= COMMENT_COLUMNS)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.map((line) => ` ${line}`).join('\n');
}
