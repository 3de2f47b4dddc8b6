import { describe, expect, test } from 'vitest';
import { isOwnAddress, type OwnAddress } from './own-address.ts';

const node: OwnAddress = {
  listenHost: '0.0.0.0',
  grpcPort: 7400,
  names: ['taskmaster-0', 'machine-7', ''],
  machine: ['127.0.0.1', '10.0.0.5', 'fd00::5'],
};

describe('a node knows its own address', () => {
  test.each([
    'taskmaster-0:7400',
    'taskmaster-0.taskmaster.default.svc.cluster.local:7400',
    'Machine-7:7400',
    '10.0.0.5:7400',
    '[fd00::5]:7400',
  ])('%s by its name or by a name or address of the machine', (address) => {
    expect(isOwnAddress(address, node)).toBe(true);
  });

  test.each(['taskmaster-1:7400', 'taskmaster-01.x:7400', '10.0.0.6:7400', 'taskmaster-0:7401', '0.0.0.0:7400'])(
    'and %s is another node',
    (address) => {
      expect(isOwnAddress(address, node)).toBe(false);
    },
  );

  test('by 127.0.0.1 only if it listens on loopback', () => {
    expect(isOwnAddress('127.0.0.1:7400', node)).toBe(false);
    expect(isOwnAddress('localhost:7400', node)).toBe(false);
    expect(isOwnAddress('127.0.0.1:7400', { ...node, listenHost: 'localhost' })).toBe(true);
  });

  test('not before its port is known', () => {
    expect(isOwnAddress('10.0.0.5:0', { ...node, grpcPort: 0 })).toBe(false);
  });
});
