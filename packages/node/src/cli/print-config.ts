import { Document, isMap, isPair, isScalar, type YAMLMap } from 'yaml';
import type { NodeConfig } from '../config.ts';
import { settingAt } from './settings.ts';

/** The settings as a YAML file that explains them, fit for `--config`. */
export function configAsYaml(config: NodeConfig): string {
  const document = new Document(config);
  document.commentBefore =
    ' Settings of a TaskMaster node. A setting engine.cacheBytes is also TASKMASTER_ENGINE_CACHE_BYTES\n in the environment and --engine-cache-bytes as a flag; flags win over the environment, that over this file.';
  if (isMap(document.contents)) explain(document.contents, []);
  return document.toString({ lineWidth: 0 });
}

function explain(map: YAMLMap, path: readonly string[]): void {
  for (const pair of map.items) {
    if (!isPair(pair) || !isScalar(pair.key)) continue;
    const at = [...path, String(pair.key.value)];
    pair.key.spaceBefore = true;
    const setting = settingAt(at);
    if (setting !== undefined)
      pair.key.commentBefore = ` ${setting.about} Default: ${JSON.stringify(setting.default)}.`;
    if (isMap(pair.value)) explain(pair.value, at);
  }
}
