{{- define "taskmaster.chart" -}}
{{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "taskmaster.name" -}}
{{ default .Chart.Name .Values.nameOverride }}
{{- end }}

{{/* Not cut if it is too long: taskmaster.validate refuses it. */}}
{{- define "taskmaster.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if contains (include "taskmaster.name" .) .Release.Name -}}
{{ .Release.Name }}
{{- else -}}
{{ .Release.Name }}-{{ include "taskmaster.name" . }}
{{- end -}}
{{- end }}

{{- define "taskmaster.nodes" -}}
{{ include "taskmaster.fullname" . }}-nodes
{{- end }}

{{- define "taskmaster.proxy" -}}
{{ include "taskmaster.fullname" . }}-proxy
{{- end }}

{{/* The ConfigMap that records the id of the cluster. */}}
{{- define "taskmaster.record" -}}
{{ include "taskmaster.fullname" . }}-cluster
{{- end }}

{{- define "taskmaster.serviceAccount" -}}
{{ default (include "taskmaster.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "taskmaster.keySecret" -}}
{{ default (printf "%s-key" (include "taskmaster.fullname" .)) .Values.clusterKey.existingSecret }}
{{- end }}

{{- define "taskmaster.accessSecret" -}}
{{ default (printf "%s-access" (include "taskmaster.fullname" .)) .Values.auth.existingSecret }}
{{- end }}

{{/* Whether other machines may reach ports without TLS, rules and a cluster key. */}}
{{- define "taskmaster.insecure" -}}
{{- if not (and .Values.tls.enabled .Values.auth.enabled .Values.clusterKey.enabled) }}true{{ end }}
{{- end }}

{{- define "taskmaster.tlsSecret" -}}
{{ default (printf "%s-tls" (include "taskmaster.fullname" .)) .Values.tls.existingSecret }}
{{- end }}

{{/* The name of the Service for clients. It is in the certificate of every member. */}}
{{- define "taskmaster.tlsName" -}}
{{ include "taskmaster.fullname" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{/* The names in a certificate that the chart makes, as JSON. */}}
{{- define "taskmaster.tlsNames" -}}
{{- $names := list (include "taskmaster.tlsName" .) "localhost" -}}
{{- range $service := list (include "taskmaster.fullname" .) (include "taskmaster.nodes" .) (printf "%s-http" (include "taskmaster.proxy" .)) -}}
{{- $inNamespace := printf "%s.%s" $service $.Release.Namespace -}}
{{- $names = concat $names (list $service $inNamespace (printf "%s.svc" $inNamespace) (printf "%s.svc.%s" $inNamespace $.Values.clusterDomain)) -}}
{{- end -}}
{{- $names = append $names (printf "*.%s.%s.svc.%s" (include "taskmaster.nodes" .) .Release.Namespace .Values.clusterDomain) -}}
{{- $names | uniq | toJson }}
{{- end }}

{{/* The settings of TLS, as JSON. */}}
{{- define "taskmaster.tlsConfig" -}}
{{- $at := "/etc/taskmaster/tls" -}}
{{- dict "certFile" (printf "%s/tls.crt" $at) "keyFile" (printf "%s/tls.key" $at) "caFile" (printf "%s/ca.crt" $at) "peerName" (include "taskmaster.tlsName" .) | toJson }}
{{- end }}

{{- define "taskmaster.backupClaim" -}}
{{ default (printf "%s-backup" (include "taskmaster.fullname" .)) .Values.backup.existingClaim }}
{{- end }}

{{/* The first node begins the cluster. The headless Service stands for all nodes. */}}
{{- define "taskmaster.join" -}}
{{- $domain := printf "%s.%s.svc.%s" (include "taskmaster.nodes" .) .Release.Namespace .Values.clusterDomain -}}
{{ include "taskmaster.fullname" . }}-0.{{ $domain }}:7400,{{ $domain }}:7400
{{- end }}

{{/* Names under which HTTP is asked, as JSON: those of a Service, and http.allowedHosts of the settings. */}}
{{- define "taskmaster.allowedHosts" -}}
{{- $inNamespace := printf "%s.%s" .service .root.Release.Namespace -}}
{{- $names := list .service $inNamespace (printf "%s.svc" $inNamespace) (printf "%s.svc.%s" $inNamespace .root.Values.clusterDomain) -}}
{{- $more := dig "http" "allowedHosts" list .config -}}
{{- if kindIs "string" $more }}{{ $more = splitList "," $more }}{{ end -}}
{{- concat $names $more | toJson }}
{{- end }}

{{- define "taskmaster.image" -}}
{{- $name := .Values.image.repository -}}
{{- with .Values.image.registry }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
{{- if .Values.image.digest -}}
{{ $name }}@{{ .Values.image.digest }}
{{- else -}}
{{ $name }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end }}

{{/* Labels by which Services and policies select pods: (dict "root" $ "component" "node"). Without component: all pods. */}}
{{- define "taskmaster.selector" -}}
app.kubernetes.io/name: {{ include "taskmaster.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "taskmaster.labels" -}}
helm.sh/chart: {{ include "taskmaster.chart" .root }}
{{ include "taskmaster.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}
