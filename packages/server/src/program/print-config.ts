import { Document, isMap, isPair, isScalar, type YAMLMap } from 'yaml';
import { type SettingsTable, settingAt } from './settings.ts';

/** The settings as a YAML file for `--config`, with their descriptions. */
export function configAsYaml<C>(table: SettingsTable<C>, config: C): string {
  const document = new Document(config);
  const example = table.all.find(({ path }) => path.length > 1);
  document.commentBefore = ` Settings of ${table.whose}. Each is also an environment variable and a flag: ${example?.name} is\n ${example?.env} and ${example?.flag}.\n Flags override the environment, and the environment overrides this file.`;
  if (isMap(document.contents)) explain(table, document.contents, []);
  return document.toString({ lineWidth: 0 });
}

function explain(table: SettingsTable<unknown>, map: YAMLMap, path: readonly string[]): void {
  for (const pair of map.items) {
    if (!isPair(pair) || !isScalar(pair.key)) continue;
    const at = [...path, String(pair.key.value)];
    pair.key.spaceBefore = true;
    const setting = settingAt(table, at);
    if (setting !== undefined)
      pair.key.commentBefore = ` ${setting.about} Default: ${JSON.stringify(setting.default)}.`;
    if (isMap(pair.value)) explain(table, pair.value, at);
  }
}
