const UNRELEASED = '## Unreleased';

export interface Release {
  /** The heading of the version in the changelog. */
  readonly heading: string;
  /** The whole changelog with that heading in place of `Unreleased`. */
  readonly text: string;
}

/** Puts the changes under `Unreleased` under a version. Throws if there are none, or if the version is there already. */
export function releaseChanges(changelog: string, version: string, date: Date): Release {
  const headings = changelog.split('\n').filter((line) => line.startsWith('## '));
  if (headings.some((line) => line.split(' ')[1] === version)) {
    throw new Error(`CHANGELOG.md has changes of ${version} already: set a new version first`);
  }
  const [before = '', after] = changelog.split(`${UNRELEASED}\n`);
  if (after === undefined) throw new Error(`CHANGELOG.md has no heading "${UNRELEASED}"`);
  if (after.split('\n## ')[0]?.trim() === '') throw new Error(`CHANGELOG.md has no changes under "${UNRELEASED}"`);
  const heading = `## ${version} (${date.toISOString().slice(0, 10)})`;
  return { heading, text: `${before}${heading}\n${after}` };
}
