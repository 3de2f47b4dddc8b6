import { describe, expect, test } from 'vitest';
import { usesHttpProxy } from './http-proxy.ts';

const PROXY = 'http://proxy.example:3128';

describe('the proxy of the environment', () => {
  test.each([
    ['queue.example:7400', { http_proxy: PROXY }, true],
    ['queue.example:7400', { https_proxy: PROXY }, true],
    ['queue.example:7400', { grpc_proxy: PROXY }, true],
    ['dns:///queue.example:7400', { http_proxy: PROXY }, true],
    ['10.1.2.3:7400', { http_proxy: PROXY }, true],
    ['[fd00::1]:7400', { http_proxy: PROXY }, true],
    ['queue.example:7400', {}, false],
    // As other programs do, because HTTP_PROXY may come from a request to a CGI program.
    ['queue.example:7400', { HTTP_PROXY: PROXY }, false],
  ])('%s with %j: %s', (endpoint, env, expected) => {
    expect(usesHttpProxy(endpoint, env)).toBe(expected);
  });

  test.each([
    'localhost:7400',
    'LOCALHOST:7400',
    'node.localhost:7400',
    '127.0.0.1:7400',
    '127.8.9.10:7400',
    '[::1]:7400',
    '[0:0:0:0:0:0:0:1]:7400',
    '[::ffff:127.0.0.1]:7400',
    'dns:///localhost:7400',
    'ipv4:127.0.0.1:7400',
    'ipv6:[::1]:7400',
    'unix:/run/taskmaster.sock',
  ])('is not between programs of one machine: %s', (endpoint) => {
    expect(usesHttpProxy(endpoint, { http_proxy: PROXY })).toBe(false);
  });

  test.each([
    ['queue.example', true],
    ['example', true],
    ['.example', true],
    ['*.example', true],
    ['QUEUE.Example', true],
    ['other, queue.example', true],
    ['other queue.example', true],
    ['queue.example:7400', true],
    ['*', true],
    ['queue.example:7401', false],
    // A part of a label is another domain.
    ['ueue.example', false],
    ['xample', false],
    // An empty entry is a slip, and not an exception for all.
    ['other,', false],
    ['', false],
  ])('has exceptions by name: no_proxy=%s: %s', (list, excepted) => {
    expect(usesHttpProxy('queue.example:7400', { http_proxy: PROXY, no_proxy: list })).toBe(!excepted);
  });

  test.each([
    ['10.1.2.3:7400', '10.1.2.3', true],
    ['10.1.2.3:7400', '10.0.0.0/8', true],
    ['10.1.2.3:7400', '10.1.2.3:7400', true],
    ['10.1.2.3:7400', '11.0.0.0/8', false],
    ['10.1.2.3:7400', '2.3', false],
    ['10.1.2.3:7400', '10.0.0.0/64', false],
    ['[fd00::1]:7400', 'fd00::1', true],
    ['[fd00::1]:7400', '[fd00::1]', true],
    ['[fd00::1]:7400', 'fd00::/8', true],
    ['[fd00::1]:7400', 'fe00::/8', false],
  ])('has exceptions by address: %s with no_proxy=%s: %s', (endpoint, list, excepted) => {
    expect(usesHttpProxy(endpoint, { http_proxy: PROXY, no_proxy: list })).toBe(!excepted);
    expect(usesHttpProxy(endpoint, { http_proxy: PROXY, NO_PROXY: list })).toBe(!excepted);
    expect(usesHttpProxy(endpoint, { http_proxy: PROXY, no_grpc_proxy: list, no_proxy: '*' })).toBe(!excepted);
  });
});
