import { expect, test } from 'vitest';
import { endpointList } from './options.ts';

test.each([
  'node-1:7400',
  '127.0.0.1:7400',
  '[::1]:7400',
  '[fe80::1%eth0]:7400',
  'dns:///nodes.example:7400',
  'unix:/run/taskmaster.sock',
  ' a:1 , b:65535 ',
])('%j is an endpoint', (given) => {
  expect(endpointList(given)).toEqual(given.split(',').map((one) => one.trim()));
});

test.each([
  ['http://node-1:7400', /it is a URL; write node-1:7400$/],
  ['https://node-1:7400/', /write node-1:7400, and give the option tls$/],
  ['grpc://node-1:7400', /write node-1:7400$/],
  ['http://', /write host:port$/],
  ['node-1', /write it as host:port/],
  ['::1:7400', /an IPv6 address as \[::1\]:port$/],
  ['::1', /an IPv6 address/],
  ['node-1:0', /host:port/],
  ['node-1:65536', /host:port/],
  ['node-1:http', /host:port/],
  ['user@node-1:7400', /host:port/],
  ['node 1:7400', /host:port/],
  ['a:1,,b:1', /none may be empty/],
])('%j is refused at once', (given, message) => {
  expect(() => endpointList(given)).toThrow(TypeError);
  expect(() => endpointList(given)).toThrow(message);
});
