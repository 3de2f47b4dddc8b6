import { describe, expect, test } from 'vitest';
import { recordOf } from '../format/manifest.ts';
import type { BackupStore } from '../places/place.ts';

/** Opens places of one kind. Places of one name have the same objects. */
export interface Places extends AsyncDisposable {
  at(name: string): BackupStore;
}

const bytes = (text: string): Buffer => Buffer.from(text);

/** Every store of backups passes these tests. */
export function storeContract(kind: string, open: () => Promise<Places>): void {
  describe(`${kind} keeps the contract of a store`, () => {
    test('written objects are read, listed, replaced and removed', async () => {
      await using places = await open();
      const store = places.at('a');
      expect([await store.list(), await store.read('x', 100)]).toEqual([[], undefined]);
      for (const name of ['x', 'y', 'z', 'u', 'v']) await store.write(name, bytes(name));
      await store.write('x', bytes('new'));
      await store.finish('manifest', bytes('last'));
      await store.remove('y');
      await store.remove('never');
      const again = places.at('a');
      expect([...(await again.list())].toSorted()).toEqual(['manifest', 'u', 'v', 'x', 'z']);
      expect(Buffer.from((await again.read('x', 3)) ?? [])).toEqual(bytes('new'));
      expect(Buffer.from((await again.read('manifest', 100)) ?? [])).toEqual(bytes('last'));
      expect(await again.read('y', 100)).toBe(undefined);
      expect(await places.at('b').list()).toEqual([]);
    });

    test('an object may be large', async () => {
      await using places = await open();
      const large = Buffer.alloc(20 * 1024 * 1024, 'large ');
      await places.at('a').write('x', large);
      expect(large.equals((await places.at('a').read('x', large.byteLength)) ?? bytes(''))).toBe(true);
    });

    test('an object that is longer than it may be is refused', async () => {
      await using places = await open();
      await places.at('a').write('x', bytes('four'));
      expect(await places.at('a').read('x', 4)).toHaveLength(4);
      await expect(places.at('a').read('x', 3)).rejects.toMatchObject({ reason: 'BACKUP_DAMAGED' });
    });

    test('a part is copied from another place only if it matches its record', async () => {
      await using places = await open();
      await places.at('base').write('p', bytes('part'));
      const store = places.at('a');
      expect(await store.copyFrom(places.at('base'), recordOf('p', bytes('part')))).toBe(true);
      expect(await store.copyFrom(places.at('base'), recordOf('p', bytes('longer part')))).toBe(false);
      expect(await store.copyFrom(places.at('base'), recordOf('p', bytes('par')))).toBe(false);
      expect(await store.copyFrom(places.at('base'), recordOf('q', bytes('part')))).toBe(false);
      await places.at('base').remove('p');
      expect(Buffer.from((await places.at('a').read('p', 100)) ?? [])).toEqual(bytes('part'));
    });

    test('a part is copied from a place of another kind, too', async () => {
      await using places = await open();
      const other = places.at('other');
      await other.write('p', bytes('part'));
      const foreign: BackupStore = Object.create(other, {});
      const read = (name: string, maxBytes: number) => other.read(name, maxBytes);
      const stranger: BackupStore = { ...foreign, title: 'elsewhere', read, store: foreign };
      expect(await places.at('a').copyFrom(stranger, recordOf('p', bytes('part')))).toBe(true);
      expect(await places.at('a').copyFrom(stranger, recordOf('p', bytes('trap')))).toBe(false);
      expect(Buffer.from((await places.at('a').read('p', 100)) ?? [])).toEqual(bytes('part'));
    });
  });
}
