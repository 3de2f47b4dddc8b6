{{- define "taskmaster.proxyConfig" -}}
{{- $made := dict
  "host" "0.0.0.0" "insecure" (eq (include "taskmaster.insecure" .) "true") "grpcPort" 7400 "httpPort" 7401 "gossipPort" 7402
  "join" (splitList "," (include "taskmaster.join" .))
  "http" (dict "allowedHosts" (fromJsonArray (include "taskmaster.allowedHosts" (dict "root" . "service" (printf "%s-http" (include "taskmaster.proxy" .)) "config" .Values.proxy.config))))
  "shutdownTimeoutMs" (mul .Values.proxy.shutdownTimeoutSeconds 1000) -}}
{{- if .Values.auth.enabled }}{{ $_ := set $made "access" (dict "file" "/etc/taskmaster/access/access.yaml" "metrics" .Values.metrics.needsCredential) }}{{ end -}}
{{- if .Values.tls.enabled }}{{ $_ := set $made "tls" (fromJson (include "taskmaster.tlsConfig" .)) }}{{ end -}}
{{- if .Values.clusterKey.enabled }}{{ $_ := set $made "cluster" (dict "keyFile" "/etc/taskmaster/keys/cluster-keys") }}{{ end -}}
{{/* Clients keep their connections, so without an age new proxies would get none. */}}
{{- $defaults := dict "grpc" (dict "maxConnectionAgeMs" 600000) -}}
{{/* Longer than it takes until another node serves what a dead one held. */}}
{{- if include "taskmaster.usesDatabase" . }}{{ $_ := set $defaults "router" (dict "holdTimeoutMs" 6000) }}{{ end -}}
{{- mergeOverwrite $defaults (deepCopy .Values.proxy.config) $made | toYaml }}
{{- end }}
