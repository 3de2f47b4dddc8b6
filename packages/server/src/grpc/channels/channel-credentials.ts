import { type ChannelCredentials, type ChannelOptions, credentials, experimental } from '@grpc/grpc-js';
import { addressName, checkAddressOrName, limits } from '@taskmaster/proto';
import type { Tls } from '../../tls/tls.ts';

/** How channels to other programs of a cluster are opened. */
export interface ChannelSecurity {
  readonly credentials: ChannelCredentials;
  readonly optionsOf: (address: string) => ChannelOptions;
}

/** Plain text. */
export const plainChannels: ChannelSecurity = {
  credentials: credentials.createInsecure(),
  optionsOf: () => channelOptions,
};

/**
 * TLS with the certificate of this program. The other side must have a certificate that a CA of `tls.caFile` has signed. New
 * connections use changed files.
 */
export function secureChannels(tls: Tls): ChannelSecurity {
  const { peerName } = tls.settings;
  const provider = new TlsProvider(tls);
  return {
    credentials: experimental.createCertificateProviderChannelCredentials(provider, provider, {
      checkServerIdentity: checkAddressOrName,
    }),
    optionsOf: (address) => {
      const name = peerName === '' ? addressName(address) : peerName;
      return name === undefined ? channelOptions : { ...channelOptions, 'grpc.ssl_target_name_override': name };
    },
  };
}

type CaListener = experimental.CaCertificateUpdateListener;
type IdentityListener = experimental.IdentityCertificateUpdateListener;

/** Passes the files on to the channels of gRPC. */
class TlsProvider implements experimental.CertificateProvider {
  readonly #tls: Tls;
  readonly #cas = new Set<CaListener>();
  readonly #identities = new Set<IdentityListener>();

  constructor(tls: Tls) {
    this.#tls = tls;
    tls.onChange(() => {
      for (const listener of this.#cas) this.#tellCa(listener);
      for (const listener of this.#identities) this.#tellIdentity(listener);
    });
  }

  addCaCertificateListener(listener: CaListener): void {
    this.#cas.add(listener);
    this.#tellCa(listener);
  }

  removeCaCertificateListener(listener: CaListener): void {
    this.#cas.delete(listener);
  }

  addIdentityCertificateListener(listener: IdentityListener): void {
    this.#identities.add(listener);
    this.#tellIdentity(listener);
  }

  removeIdentityCertificateListener(listener: IdentityListener): void {
    this.#identities.delete(listener);
  }

  #tellCa(listener: CaListener): void {
    // Members whose certificates no CA of this cluster has signed are not called: without a CA file, the own certificate counts.
    const { ca, cert } = this.#tls.material;
    listener({ caCertificate: Buffer.from(ca ?? cert) });
  }

  #tellIdentity(listener: IdentityListener): void {
    const { cert, key } = this.#tls.material;
    listener({ certificate: Buffer.from(cert), privateKey: Buffer.from(key) });
  }
}

/** Options of gRPC channels between the programs of a cluster. */
const channelOptions: ChannelOptions = {
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
