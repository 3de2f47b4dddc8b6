/** The other names of a setting: those outside of the file. */
export interface SettingNames {
  /** `TASKMASTER_ENGINE_CACHE_BYTES`. */
  readonly env: string;
  /** `--engine-cache-bytes`. */
  readonly flag: string;
}

/** The names of the setting at a path of the file, such as `['engine', 'cacheBytes']`. */
export function namesOf(path: readonly string[]): SettingNames {
  // The URL of a section names the section: `store.url` is `--store`.
  const named = path.at(-1) === 'url' ? path.slice(0, -1) : path;
  const words = named.flatMap((key) => key.split(/(?=[A-Z])/)).map((word) => word.toLowerCase());
  return { env: `TASKMASTER_${words.join('_').toUpperCase()}`, flag: `--${words.join('-')}` };
}
