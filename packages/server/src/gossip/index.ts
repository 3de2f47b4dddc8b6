export { Seal } from './datagrams/seal.ts';
export { assertResolves, GossipListenError, type HeldPort, holdPort } from './datagrams/socket.ts';
export { type GossipOptions, openGossip } from './open-gossip.ts';
export type { SwimMember as GossipMember } from './swim/swim-member.ts';
