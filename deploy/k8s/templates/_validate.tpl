{{/* Refuses what the schema of the values cannot know. */}}
{{- define "taskmaster.validate" -}}
{{- $name := include "taskmaster.fullname" . -}}
{{- if or (gt (len $name) 40) (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name)) }}
{{- fail (printf "the name %q must be a DNS label of at most 40 characters, because names of pods and Services begin with it: choose a shorter release name, or set fullnameOverride" $name) }}
{{- end }}
{{- include "taskmaster.validateConfig" (dict "of" "node" "config" .Values.node.config "made" (list "dataDir" "host" "grpcPort" "httpPort" "gossipPort" "name" "bootstrap" "join" "drainOnShutdown" "shutdownTimeoutMs" "kubernetes" "cluster.keyFile" "cluster.advertiseHost" "cluster.drainTimeoutMs" "store.url" "store.schema" "tls.certFile" "tls.keyFile" "tls.caFile" "tls.peerName" "access.file" "access.metrics" "insecure")) }}
{{- include "taskmaster.validateConfig" (dict "of" "proxy" "config" .Values.proxy.config "made" (list "host" "grpcPort" "httpPort" "gossipPort" "name" "join" "shutdownTimeoutMs" "cluster.keyFile" "cluster.advertiseHost" "tls.certFile" "tls.keyFile" "tls.caFile" "tls.peerName" "access.file" "access.metrics" "insecure")) }}
{{- with .Values.proxy.autoscaling }}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) }}
{{- fail "proxy.autoscaling.minReplicas must not be more than maxReplicas" }}
{{- end }}
{{- end }}
{{- if and .Values.auth.enabled (not (and .Values.tls.enabled .Values.clusterKey.enabled)) }}
{{- fail "auth.enabled needs tls.enabled, so that nobody reads the tokens, and clusterKey.enabled, so that nobody names another caller: set auth.enabled=false, too, to go without" }}
{{- end }}
{{- include "taskmaster.validateDatabase" . }}
{{- include "taskmaster.validateUnused" . }}
{{- include "taskmaster.validateMemory" (dict "path" "node.resources.limits.memory" "limit" .Values.node.resources.limits.memory "whose" "a node" "least" 295) }}
{{- if .Values.proxy.enabled }}
{{- include "taskmaster.validateMemory" (dict "path" "proxy.resources.limits.memory" "limit" .Values.proxy.resources.limits.memory "whose" "a proxy" "least" 192) }}
{{- end }}
{{- include "taskmaster.validateSecret" . }}
{{- include "taskmaster.validateDatabaseSecrets" . }}
{{- include "taskmaster.validateCertificate" . }}
{{- include "taskmaster.validateRules" . }}
{{- include "taskmaster.validateStorageClass" . }}
{{- end }}

{{/* Refuses two places for one setting, and passwords outside of Secrets. Messages do not have the URL, which may have a password. */}}
{{- define "taskmaster.validateDatabase" -}}
{{- with .Values.store.postgres }}
{{- if and .url .existingSecret }}
{{- fail "store.postgres.url and store.postgres.existingSecret are two URLs: set one of them" }}
{{- end }}
{{- if and .url (not (regexMatch "^postgres(ql)?://[^/]" .url)) }}
{{- fail "store.postgres.url must be a URL such as postgres://taskmaster@db.example.com/queues" }}
{{- end }}
{{- if regexMatch "//[^@]*:[^@]*@|[?&]password=" .url }}
{{- fail "store.postgres.url has a password, which everybody who may see pods would see: put it into a Secret, and name that in store.postgres.passwordSecret" }}
{{- end }}
{{- if and .passwordSecret (not .url) }}
{{- fail (printf "store.postgres.passwordSecret would be ignored: %s" (ternary "the URL in store.postgres.existingSecret has the password" "store.postgres.url is not set" (ne .existingSecret ""))) }}
{{- end }}
{{- range $name, $default := dict "caSecret" "" "schema" "taskmaster" }}
{{- if and (ne (get $.Values.store.postgres $name) $default) (not (include "taskmaster.usesDatabase" $)) }}
{{- fail (printf "store.postgres.%s would be ignored: neither store.postgres.url nor store.postgres.existingSecret is set" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- if include "taskmaster.usesDatabase" . }}
{{- range $name, $default := dict "size" "10Gi" "storageClass" "" "accessModes" (list "ReadWriteOnce") "annotations" dict "whenDeleted" "Retain" }}
{{- if ne (get $.Values.node.persistence $name | toJson) (toJson $default) }}
{{- fail (printf "node.persistence.%s would be ignored: with store.postgres nodes have no volumes" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "taskmaster.validateDatabaseSecrets" -}}
{{- with .Values.store.postgres }}
{{- $needed := list (list .existingSecret .secretKey "existingSecret") (list .passwordSecret .passwordKey "passwordSecret") (list .caSecret "ca.crt" "caSecret") -}}
{{- range $needed }}
{{- if first . }}
{{- $secret := lookup "v1" "Secret" $.Release.Namespace (first .) -}}
{{- if and $secret (not (get (default dict $secret.data) (index . 1))) }}
{{- fail (printf "the Secret %s has no %s (store.postgres.%s)" (first .) (index . 1) (last .)) }}
{{- else if and (not $secret) (lookup "v1" "Namespace" "" $.Release.Namespace) }}
{{- fail (printf "there is no Secret %s in the namespace %s (store.postgres.%s)" (first .) $.Release.Namespace (last .)) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .existingSecret .caSecret }}
{{- $secret := lookup "v1" "Secret" $.Release.Namespace .existingSecret | default dict -}}
{{- if get (default dict $secret.data) .secretKey | b64dec | contains "?" }}
{{- fail (printf "the URL in the Secret %s has a ?, behind which store.postgres.caSecret would add options: leave one of them out" .existingSecret) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses values that would be ignored: who set them expects an effect. */}}
{{- define "taskmaster.validateUnused" -}}
{{- with .Values.auth }}
{{- range $name := list "principals" "groups" }}
{{- if and (get $.Values.auth $name) (or $.Values.auth.existingSecret (not $.Values.auth.enabled)) }}
{{- fail (printf "auth.%s would be ignored: %s" $name (ternary "put them into access.yaml of the Secret auth.existingSecret" "auth.enabled is false" $.Values.auth.enabled)) }}
{{- end }}
{{- end }}
{{- range .principals }}
{{- if has .name (list "operator" "backup-job" "prometheus") }}
{{- fail (printf "auth.principals must not have the name %s: the chart makes this principal" .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.metrics.needsCredential (not .Values.auth.enabled) }}
{{- fail "metrics.needsCredential would be ignored: auth.enabled is false" }}
{{- end }}
{{- with .Values.backup }}
{{- if and .s3 (or .existingClaim .storageClass) }}
{{- fail "backup.existingClaim and backup.storageClass would be ignored: backup.s3 is set" }}
{{- end }}
{{- if and .existingClaim .storageClass }}
{{- fail "backup.storageClass would be ignored: backup.existingClaim is set" }}
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses a limit with which the program would not start: (dict "path" "..." "limit" "1Gi" "whose" "a node" "least" 295). */}}
{{- define "taskmaster.validateMemory" -}}
{{- $number := toString .limit | regexFind "^[0-9.e+]+" -}}
{{- $units := dict "" 1.0 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 -}}
{{- $bytes := mulf (float64 $number) (get $units (toString .limit | trimPrefix $number)) -}}
{{- if lt $bytes (mulf .least 1048576.0) }}
{{- fail (printf "%s is %s, which is too little: %s needs at least %dMi" .path (toString .limit) .whose .least) }}
{{- end }}
{{- end }}

{{/* Refuses settings that the chart makes itself: two places for one setting would disagree. */}}
{{- define "taskmaster.validateConfig" -}}
{{- $config := .config -}}
{{- $of := .of -}}
{{- range .made }}
{{- $path := splitList "." . -}}
{{- $at := $config -}}
{{- if eq (len $path) 2 }}{{ $at = default dict (get $config (first $path)) }}{{ end -}}
{{- if hasKey $at (last $path) }}
{{- fail (printf "%s.config.%s is made by the chart: use its values instead" $of .) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Looks at the cluster. Rendering without a cluster finds nothing, and refuses nothing. */}}
{{- define "taskmaster.validateSecret" -}}
{{- if and .Values.clusterKey.enabled .Values.clusterKey.existingSecret }}
{{- $secret := lookup "v1" "Secret" .Release.Namespace .Values.clusterKey.existingSecret -}}
{{- if $secret }}
{{- $keys := default "" (get (default dict $secret.data) .Values.clusterKey.secretKey) | b64dec -}}
{{- if not (regexMatch "(?m)^[ \\t]*[^#\\s].{15,}$" $keys) }}
{{- fail (printf "the Secret %s has no key of at least 16 characters at %q" .Values.clusterKey.existingSecret .Values.clusterKey.secretKey) }}
{{- end }}
{{- else if lookup "v1" "Namespace" "" .Release.Namespace }}
{{- fail (printf "there is no Secret %s in the namespace %s (clusterKey.existingSecret)" .Values.clusterKey.existingSecret .Release.Namespace) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "taskmaster.validateCertificate" -}}
{{- if and .Values.tls.enabled .Values.tls.existingSecret }}
{{- $secret := lookup "v1" "Secret" .Release.Namespace .Values.tls.existingSecret -}}
{{- if $secret }}
{{- range list "tls.crt" "tls.key" "ca.crt" }}
{{- if not (get (default dict $secret.data) .) }}
{{- fail (printf "the Secret %s has no %s" $.Values.tls.existingSecret .) }}
{{- end }}
{{- end }}
{{- else if lookup "v1" "Namespace" "" .Release.Namespace }}
{{- fail (printf "there is no Secret %s in the namespace %s (tls.existingSecret)" .Values.tls.existingSecret .Release.Namespace) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "taskmaster.validateRules" -}}
{{- if and .Values.auth.enabled .Values.auth.existingSecret }}
{{- $secret := lookup "v1" "Secret" .Release.Namespace .Values.auth.existingSecret -}}
{{- if $secret }}
{{- $needed := list "access.yaml" "token" -}}
{{- if .Values.backup.enabled }}{{ $needed = append $needed "backup-token" }}{{ end -}}
{{- if .Values.metrics.needsCredential }}{{ $needed = append $needed "metrics-token" }}{{ end -}}
{{- range $needed }}
{{- if not (get (default dict $secret.data) .) }}
{{- fail (printf "the Secret %s has no %s" $.Values.auth.existingSecret .) }}
{{- end }}
{{- end }}
{{- else if lookup "v1" "Namespace" "" .Release.Namespace }}
{{- fail (printf "there is no Secret %s in the namespace %s (auth.existingSecret)" .Values.auth.existingSecret .Release.Namespace) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "taskmaster.validateStorageClass" -}}
{{- $classes := list .Values.node.persistence.storageClass -}}
{{- if .Values.backup.enabled }}{{ $classes = append $classes .Values.backup.storageClass }}{{ end -}}
{{- range compact $classes }}
{{- if and (not (lookup "storage.k8s.io/v1" "StorageClass" "" .)) (lookup "v1" "Namespace" "" $.Release.Namespace) }}
{{- fail (printf "there is no StorageClass %s" .) }}
{{- end }}
{{- end }}
{{- end }}
