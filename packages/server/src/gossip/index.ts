export { type GossipOptions, openGossip } from './open-gossip.ts';
export { Seal } from './seal.ts';
export { assertResolves, GossipListenError, type HeldPort, holdPort } from './socket.ts';
export type { SwimMember as GossipMember } from './swim-member.ts';
