// Reading requests: each `parse` function turns a message into a command, or throws a `Refusal`. A node parses the rest.

export * from './checks.ts';
export { type Decoded, decodeCall, decodeRequest, type MessageType, rawMethod } from './codec.ts';
export { knowsRegex } from './kept-regex.ts';
export { pageTokenAfter, pageTokenBehind, parsePlaceToken } from './page-token.ts';
export { parseKinds, parseLease } from './parse-lease.ts';
export { parseListSchedules, scheduleName } from './parse-list-schedules.ts';
export { nameRegex, parseList, parseStats, type QueueListing } from './parse-queues.ts';
export { groupName, groupOf, queueIn, queueName, queueOrGroup } from './queue-names.ts';
