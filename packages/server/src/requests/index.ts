// Reading requests: each `parse` function turns a message into a command, or throws a `Refusal`.

export { countAtMost, duration, excerpt, headerKey, headerValue, type Place, refuse } from './checks.ts';
export { type Decoded, decodeCall, decodeRequest, type MessageType, rawMethod } from './codec.ts';
export { knowsRegex } from './kept-regex.ts';
export { pageTokenAfter, parsePageToken } from './page-token.ts';
export { parseLease } from './parse-lease.ts';
export { nameRegex, parseList, parseStats } from './parse-queues.ts';
export * from './parse-schedules.ts';
export { parseSettings, queuePattern } from './parse-settings.ts';
export { parseGet, parsePeek, parseWait } from './parse-tasks.ts';
export { countItems, parseParts, parseUpdate } from './parse-update.ts';
export { groupName, groupOf, queueIn, queueName, queueOrGroup } from './queue-names.ts';
