{{- define "taskmaster.nodeConfig" -}}
{{- $made := dict
  "host" "0.0.0.0" "insecure" (eq (include "taskmaster.insecure" .) "true") "grpcPort" 7400 "httpPort" 7401 "gossipPort" 7402
  "bootstrap" true "join" (splitList "," (include "taskmaster.join" .))
  "drainOnShutdown" "scale-down"
  "shutdownTimeoutMs" (mul .Values.node.shutdownTimeoutSeconds 1000)
  "cluster" (dict "drainTimeoutMs" (mul (include "taskmaster.drainSeconds" .) 1000))
  "http" (dict "allowedHosts" (fromJsonArray (include "taskmaster.allowedHosts" (dict "root" . "service" (include "taskmaster.nodes" .) "config" .Values.node.config))))
  "kubernetes" (dict "statefulSet" (include "taskmaster.fullname" .)) -}}
{{- if include "taskmaster.usesDatabase" . -}}
{{- $_ := set $made "store" (dict "schema" .Values.store.postgres.schema) -}}
{{- else -}}
{{- $_ := set $made "dataDir" "/data/taskmaster" -}}
{{- $_ := set $made.kubernetes "clusterConfigMap" (include "taskmaster.record" .) -}}
{{- end -}}
{{- if .Values.auth.enabled }}{{ $_ := set $made "access" (dict "file" "/etc/taskmaster/access/access.yaml" "metrics" .Values.metrics.needsCredential) }}{{ end -}}
{{- if .Values.tls.enabled }}{{ $_ := set $made "tls" (fromJson (include "taskmaster.tlsConfig" .)) }}{{ end -}}
{{- if .Values.clusterKey.enabled }}{{ $_ := set $made.cluster "keyFile" "/etc/taskmaster/keys/cluster-keys" }}{{ end -}}
{{- mergeOverwrite (deepCopy .Values.node.config) $made | toYaml }}
{{- end }}
