{{/* Whether the nodes share a database: true, or empty. */}}
{{- define "taskmaster.usesDatabase" -}}
{{- with .Values.store.postgres }}{{ if or .url .existingSecret }}true{{ end }}{{ end }}
{{- end }}

{{/* How long a drain may take, in seconds. With a database nothing is copied. */}}
{{- define "taskmaster.drainSeconds" -}}
{{ default (ternary 60 1800 (eq (include "taskmaster.usesDatabase" .) "true")) .Values.node.drain.timeoutSeconds }}
{{- end }}

{{/* The options of TLS for the URL of the database, without those that it has. */}}
{{- define "taskmaster.databaseOptions" -}}
{{- with .Values.store.postgres }}
{{- if .caSecret -}}
{{ contains "?" .url | ternary "&" "?" }}{{ if not (contains "sslmode=" .url) }}sslmode=verify-full&{{ end }}sslrootcert=/etc/taskmaster/database/ca.crt
{{- end }}
{{- end }}
{{- end }}

{{/* Passwords come from Secrets: settings in a ConfigMap, and arguments, are seen by more people. */}}
{{- define "taskmaster.databaseEnv" -}}
{{- $options := include "taskmaster.databaseOptions" . -}}
{{- with .Values.store.postgres }}
{{- if and .existingSecret $options }}
- name: DATABASE_URL
  valueFrom: { secretKeyRef: { name: {{ .existingSecret }}, key: {{ .secretKey }} } }
- { name: TASKMASTER_STORE, value: {{ printf "$(DATABASE_URL)%s" $options | quote }} }
{{- else if .existingSecret }}
- name: TASKMASTER_STORE
  valueFrom: { secretKeyRef: { name: {{ .existingSecret }}, key: {{ .secretKey }} } }
{{- else if .url }}
- { name: TASKMASTER_STORE, value: {{ printf "%s%s" .url $options | quote }} }
{{- end }}
{{- if .passwordSecret }}
- name: PGPASSWORD
  valueFrom: { secretKeyRef: { name: {{ .passwordSecret }}, key: {{ .passwordKey }} } }
{{- end }}
{{- end }}
{{- end }}
