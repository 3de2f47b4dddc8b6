import type { ChannelOptions } from '@grpc/grpc-js';
import { limits } from '@taskmaster/proto';

/** Options of gRPC channels between the programs of a cluster. */
export const channelOptions: ChannelOptions = {
  // A reply has up to 3.5 MiB of payloads, and one message of a stream may contain several replies.
  'grpc.max_receive_message_length': 4 * limits.requestBytes,
  'grpc-node.flow_control_window': limits.requestBytes,
  // Pings notice a node that vanished or hangs. Its kernel may keep the connection open for long.
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
  'grpc.initial_reconnect_backoff_ms': 50,
  // Callers of a restarted node wait for this time.
  'grpc.max_reconnect_backoff_ms': 200,
  // Clients do not share connections: there is already one client for each address.
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_channelz': 0,
  // Programs of a cluster reach each other directly, whatever http_proxy and its like say.
  'grpc.enable_http_proxy': 0,
};
