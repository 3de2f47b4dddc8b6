import { join } from 'node:path';
import { dataFormats, PROTOCOL } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { root } from '../../support/paths.ts';
import { documentAt, withGenerated } from './documents.ts';

test('docs/upgrading.md has every data format (vitest -u writes it)', async () => {
  const path = 'docs/upgrading.md';
  const rows = dataFormats.map(({ format, release, changed, downgrade }) => {
    const back = format === dataFormats[0].format ? '' : downgrade ? 'yes' : 'no';
    return `| ${format} | ${release} | ${changed} | ${back} |`;
  });
  const titles = '| format | first release | change | can the release before use it? |\n| --- | --- | --- | --- |';
  await expect(withGenerated(path, [titles, ...rows].join('\n'))).toMatchFileSnapshot(join(root, path));
});

test('docs/upgrading.md names the protocol versions of this release', () => {
  const versions =
    PROTOCOL.min === PROTOCOL.max ? `version ${PROTOCOL.min}` : `versions ${PROTOCOL.min} to ${PROTOCOL.max}`;
  expect(documentAt('docs/upgrading.md').text).toContain(`This release speaks protocol ${versions},`);
});
