import { describe, expect, test } from 'vitest';
import type { MemberMeta, Membership, Peer } from '../ports/membership.ts';

/** How the suite starts members and advances time. Some implementations use virtual time, others real time. */
export interface MembershipWorld extends AsyncDisposable {
  open(self: MemberMeta, seeds: readonly string[]): Promise<Membership>;
  /** Waits until the condition holds. Rejects after a time that suits the implementation. */
  until(condition: () => boolean): Promise<void>;
}

export const memberMeta = (name: string, incarnation = 1, nodeId = `id-${name}`): MemberMeta => ({
  nodeId,
  name,
  role: 'node',
  rpcAddress: `${name}.test:7070`,
  version: '0.1.0',
  stateVersion: 0,
  incarnation,
});

const aliveIn = (membership: Membership): string[] =>
  membership
    .peers()
    .filter(({ alive }) => alive)
    .map(({ name }) => name);
const peerIn = (membership: Membership, nodeId: string): Peer | undefined =>
  membership.peers().find((peer) => peer.nodeId === nodeId);

/** What every implementation of Membership must do. */
export function membershipContract(name: string, start: () => Promise<MembershipWorld>): void {
  describe(`${name} keeps the membership contract`, () => {
    const three = async (world: MembershipWorld): Promise<[Membership, Membership, Membership]> => {
      const a = await world.open(memberMeta('a'), []);
      const b = await world.open(memberMeta('b'), [a.gossipAddress]);
      const c = await world.open(memberMeta('c'), [a.gossipAddress]);
      await world.until(() => [a, b, c].every((member) => aliveIn(member).length === 2));
      return [a, b, c];
    };

    test('members find one another through one seed', async () => {
      await using world = await start();
      const [a, b, c] = await three(world);
      expect([a, b, c].map(aliveIn)).toEqual([
        ['b', 'c'],
        ['a', 'c'],
        ['a', 'b'],
      ]);
      expect(peerIn(b, 'id-c')).toMatchObject({ gossipAddress: c.gossipAddress, rpcAddress: 'c.test:7070' });
    });

    test('an announcement reaches all, and listeners are told', async () => {
      await using world = await start();
      const [a, b, c] = await three(world);
      let told = 0;
      b.on('change', (peers) => {
        if (peers.some(({ stateVersion }) => stateVersion === 5)) told++;
      });
      a.announce({ stateVersion: 4 });
      a.announce({ stateVersion: 5 });
      await world.until(() => [b, c].every((member) => peerIn(member, 'id-a')?.stateVersion === 5));
      expect(a.self.stateVersion).toBe(5);
      expect(told).toBeGreaterThan(0);
    });

    test('a member that crashes is declared dead, and stays in the list', async () => {
      await using world = await start();
      const [a, b, c] = await three(world);
      await c.close();
      await world.until(() => [a, b].every((member) => peerIn(member, 'id-c')?.alive === false));
      expect(aliveIn(a)).toEqual(['b']);
    });

    test('a member that leaves is gone for all', async () => {
      await using world = await start();
      const [a, b, c] = await three(world);
      await c.leave();
      await world.until(() => [a, b].every((member) => peerIn(member, 'id-c')?.alive === false));
      expect(a.figures().deaths + b.figures().deaths).toBe(0);
    });

    test('a later start of a node replaces the earlier one, even at another address', async () => {
      await using world = await start();
      const [a, b, c] = await three(world);
      await c.close();
      const again = await world.open(memberMeta('c', 2), [a.gossipAddress]);
      await world.until(() => [a, b].every((member) => peerIn(member, 'id-c')?.incarnation === 2));
      expect(peerIn(a, 'id-c')).toMatchObject({ alive: true, gossipAddress: again.gossipAddress });
      expect(aliveIn(a)).toEqual(['b', 'c']);
    });

    test('members without a seed find one another at the addresses that they seek', async () => {
      await using world = await start();
      const a = await world.open(memberMeta('a'), []);
      const b = await world.open(memberMeta('b'), []);
      b.seek(['nobody', a.gossipAddress]);
      await world.until(() => [a, b].every((member) => aliveIn(member).length === 1));
    });

    test('two live members of one name are reported to both', async () => {
      await using world = await start();
      const a = await world.open(memberMeta('a'), []);
      const conflicts: string[] = [];
      a.on('nameConflict', ({ nodeId }) => conflicts.push(nodeId));
      const other = await world.open(memberMeta('a', 1, 'id-other'), [a.gossipAddress]);
      other.on('nameConflict', ({ nodeId }) => conflicts.push(nodeId));
      await world.until(() => conflicts.length === 2);
      expect(conflicts.sort()).toEqual(['id-a', 'id-other']);
    });

    test('ending twice does no harm', async () => {
      await using world = await start();
      const a = await world.open(memberMeta('a'), []);
      await a.leave();
      await a.close();
      await a.close();
    });
  });
}
