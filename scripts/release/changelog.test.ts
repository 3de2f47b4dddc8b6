import { describe, expect, test } from 'vitest';
import { releaseChanges } from './changelog.ts';

const date = new Date('2026-11-24T12:00:00Z');

describe('the changes of a release', () => {
  test('stand under its version and date', () => {
    const changelog = '# Changes\n\n## Unreleased\n\n- New.\n\n## 0.1.0 (2026-01-01)\n\n- Old.\n';
    expect(releaseChanges(changelog, '0.2.0', date)).toEqual({
      heading: '## 0.2.0 (2026-11-24)',
      text: '# Changes\n\n## 0.2.0 (2026-11-24)\n\n- New.\n\n## 0.1.0 (2026-01-01)\n\n- Old.\n',
    });
  });

  test.each([
    ['no heading', '# Changes\n\n## 0.1.0 (2026-01-01)\n\n- Old.\n', 'has no heading'],
    ['no changes', '# Changes\n\n## Unreleased\n\n## 0.1.0 (2026-01-01)\n\n- Old.\n', 'has no changes'],
    ['a known version', '# Changes\n\n## Unreleased\n\n- New.\n\n## 0.2.0 (2026-01-01)\n', 'has changes of 0.2.0'],
  ])('are refused with %s', (_, changelog, problem) => {
    expect(() => releaseChanges(changelog, '0.2.0', date)).toThrow(problem);
  });
});
