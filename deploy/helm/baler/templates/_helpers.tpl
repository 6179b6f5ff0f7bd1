{{- define "baler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "baler.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "baler.selectorLabels" -}}
app.kubernetes.io/name: {{ include "baler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "baler.labels" -}}
app.kubernetes.io/name: {{ include "baler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "baler.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "baler.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "baler.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end }}

{{- define "baler.scrapeAnnotations" -}}
{{- if .Values.metrics.annotations -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .Values.ports.admin | quote }}
prometheus.io/path: /metrics
{{- end }}
{{- end }}

{{/* The secrets that are mounted as files, as a list: the volume, which is mounted below /etc, and the variable that names the file. */}}
{{- define "baler.secretFiles" -}}
{{- with .Values.upstream.caSecret }}
- {volume: baler-ca, file: ca.crt, variable: BALER_UPSTREAM__CA_FILE, secret: {{ toJson . }}}
{{- end }}
{{- with .Values.ledger.caSecret }}
- {volume: baler-ledger-ca, file: ca.crt, variable: BALER_LEDGER__CA_FILE, secret: {{ toJson . }}}
{{- end }}
{{- with .Values.listen.authTokensSecret }}
- {volume: baler-clients, file: tokens, variable: BALER_LISTEN__AUTH_TOKENS_FILE, secret: {{ toJson . }}}
{{- end }}
{{- end }}

{{/* What the container is the same in, as sidecar and as gateway. */}}
{{- define "baler.container" -}}
image: {{ include "baler.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: ["serve", "--config", "/etc/baler/baler.toml"]
{{- /* It takes less than a second, which every new pod waits for. */}}
startupProbe:
  httpGet:
    path: /readyz
    port: baler-admin
  periodSeconds: 1
  timeoutSeconds: 1
  failureThreshold: 60
{{- /* An outage of the API is no part of it. */}}
readinessProbe:
  httpGet:
    path: /readyz
    port: baler-admin
  periodSeconds: 5
  timeoutSeconds: 2
  failureThreshold: 2
{{- /* Slow to judge: a restart breaks every stream. */}}
livenessProbe:
  httpGet:
    path: /livez
    port: baler-admin
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  - name: baler-config
    mountPath: /etc/baler
    readOnly: true
  {{- range include "baler.secretFiles" . | fromYamlArray }}
  - name: {{ .volume }}
    mountPath: /etc/{{ .volume }}
    readOnly: true
  {{- end }}
{{- end }}

{{- define "baler.env" -}}
- name: BALER_ADMIN__ADDRESS
  value: {{ printf "%s:%v" .Values.bindAddress .Values.ports.admin | quote }}
{{- range include "baler.secretFiles" . | fromYamlArray }}
- name: {{ .variable }}
  value: /etc/{{ .volume }}/{{ .file }}
{{- end }}
{{- if .Values.ledger.urlSecret }}
- name: BALER_LEDGER__URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.ledger.urlSecret.name }}
      key: {{ .Values.ledger.urlSecret.key }}
{{- else if .Values.ledger.url }}
- name: BALER_LEDGER__URL
  value: {{ .Values.ledger.url | quote }}
{{- end }}
{{- with .Values.ledger.secret }}
- name: BALER_LEDGER__SECRET
  valueFrom:
    secretKeyRef:
      name: {{ .name }}
      key: {{ .key }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Volumes for a ConfigMap by the name of "configMap". */}}
{{- define "baler.volumes" -}}
- name: baler-config
  configMap:
    name: {{ .configMap }}
{{- range include "baler.secretFiles" .context | fromYamlArray }}
- name: {{ .volume }}
  secret:
    secretName: {{ .secret.name }}
    items:
      - key: {{ .secret.key }}
        path: {{ .file }}
{{- end }}
{{- end }}
