{{/* Where pods run: (dict "root" $ "component" "node" "values" .Values.node). */}}
{{- define "taskmaster.placement" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
{{- if .values.topologySpreadConstraints }}
{{- toYaml .values.topologySpreadConstraints | nindent 2 }}
{{- else }}
  - topologyKey: topology.kubernetes.io/zone
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "taskmaster.selector" . | nindent 8 }}
  - topologyKey: kubernetes.io/hostname
    maxSkew: 1
    whenUnsatisfiable: {{ .values.spread }}
    labelSelector:
      matchLabels: {{- include "taskmaster.selector" . | nindent 8 }}
{{- end }}
{{- end }}

{{- define "taskmaster.container" -}}
image: {{ include "taskmaster.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
# The status of the pod shows why a program refused to start.
terminationMessagePolicy: FallbackToLogsOnError
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
{{- end }}

{{/* Empty quantities are left out: a missing limit is not a limit of nothing. */}}
{{- define "taskmaster.resources" -}}
resources:
{{- range $kind, $of := . }}
  {{ $kind }}:
  {{- range $name, $quantity := $of }}
  {{- if ne (toString $quantity) "" }}
    {{ $name }}: {{ $quantity | quote }}
  {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "taskmaster.podEnv" -}}
- name: TASKMASTER_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- name: TASKMASTER_CLUSTER_ADVERTISE_HOST
  valueFrom: { fieldRef: { fieldPath: status.podIP } }
{{- end }}

{{/* The command line of a pod that is a client: (dict "root" $ "token" "token"). The token is the name of a key in the Secret. */}}
{{- define "taskmaster.clientEnv" -}}
- { name: TASKMASTER_ENDPOINTS, value: "{{ include "taskmaster.fullname" .root }}:{{ .root.Values.service.port }}" }
{{- include "taskmaster.credentialEnv" . }}
{{- end }}

{{/* How the command line in a pod of the chart proves who it is. */}}
{{- define "taskmaster.credentialEnv" -}}
{{- if .root.Values.tls.enabled }}
- { name: TASKMASTER_TLS_CA, value: /etc/taskmaster/tls/ca.crt }
- { name: TASKMASTER_TLS_SERVER_NAME, value: {{ include "taskmaster.tlsName" .root }} }
{{- end }}
{{- if .root.Values.auth.enabled }}
- name: TASKMASTER_TOKEN
  valueFrom: { secretKeyRef: { name: {{ include "taskmaster.accessSecret" .root }}, key: {{ .token }} } }
{{- end }}
{{- end }}

{{/* The rules of access. */}}
{{- define "taskmaster.accessVolume" -}}
- name: access
  secret:
    secretName: {{ include "taskmaster.accessSecret" . }}
    defaultMode: 0440
    items: [{ key: access.yaml, path: access.yaml }]
{{- end }}

{{/* The certificate of members. */}}
{{- define "taskmaster.tlsVolume" -}}
- name: tls
  secret: { secretName: {{ include "taskmaster.tlsSecret" . }}, defaultMode: 0440 }
{{- end }}

{{/* The CA for clients. They must not have the key. */}}
{{- define "taskmaster.caVolume" -}}
- name: tls
  secret:
    secretName: {{ include "taskmaster.tlsSecret" . }}
    items: [{ key: ca.crt, path: ca.crt }]
{{- end }}

{{- define "taskmaster.probe" -}}
{ path: {{ .path }}, port: http{{ if .root.Values.tls.enabled }}, scheme: HTTPS{{ end }} }
{{- end }}

{{- define "taskmaster.ports" -}}
ports:
  - { name: grpc, containerPort: 7400 }
  - { name: http, containerPort: 7401 }
  - { name: gossip, containerPort: 7402, protocol: UDP }
{{- end }}

{{/* Metadata of pods. Changed settings start new pods: (dict "root" $ "component" "node" "values" .Values.node "config" "settings"). */}}
{{- define "taskmaster.podMetadata" -}}
labels:
  {{- include "taskmaster.selector" . | nindent 2 }}
  {{- with .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  checksum/config: {{ .config | sha256sum }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
