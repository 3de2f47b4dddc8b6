import type { ChannelOptions } from '@grpc/grpc-js';
import { limits } from '@taskmaster/proto';

/** Of connections between the programs of a cluster. */
export const channelOptions: ChannelOptions = {
  // Replies hold up to 3.5 MiB of payloads, and several may travel in one message of a stream.
  'grpc.max_receive_message_length': 4 * limits.requestBytes,
  'grpc-node.flow_control_window': limits.requestBytes,
  // Notices a node that vanished or hangs; its kernel may keep the connection open for long.
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
  'grpc.initial_reconnect_backoff_ms': 50,
  // Callers of a node that was started again wait for this.
  'grpc.max_reconnect_backoff_ms': 200,
  // Each client of this process is its own: one per address already.
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_channelz': 0,
};
