{{/*
The named templates for a chart of your own that has this one as its dependency "baler". Each takes .Subcharts.baler:

  baler.sidecar.annotations    of the pod: the scrape annotations, and the hash of the configuration, so that a change rolls the pods
  baler.sidecar.container      an item of initContainers
  baler.sidecar.env            items of env, for each container that calls the API
  baler.sidecar.volumes        items of volumes

Set terminationGracePeriodSeconds to what the application takes to stop, plus shutdown.timeout, plus some seconds.
*/}}

{{- define "baler.sidecar.configMap" -}}
{{- default (printf "%s-sidecar" (include "baler.fullname" .)) .Values.sidecar.configMap }}
{{- end }}

{{- define "baler.sidecar.annotations" -}}
{{ include "baler.scrapeAnnotations" . }}
{{- if .Values.sidecar.createConfigMap }}
checksum/baler-config: {{ .Values.config | sha256sum }}
{{- end }}
{{- end }}

{{- define "baler.sidecar.container" -}}
- name: baler
  {{- /* Makes it a sidecar: started before the application, stopped after it, and no obstacle to a Job's end. */}}
  restartPolicy: Always
  env:
    {{- /* The data port stays on loopback: for this pod alone. */}}
    - name: BALER_LISTEN__ADDRESS
      value: "127.0.0.1:{{ .Values.ports.data }}"
    {{- include "baler.env" . | nindent 4 }}
  ports:
    - name: baler-admin
      containerPort: {{ .Values.ports.admin }}
      protocol: TCP
  {{- include "baler.container" . | nindent 2 }}
{{- end }}

{{- define "baler.sidecar.env" -}}
- name: OPENAI_BASE_URL
  value: "http://127.0.0.1:{{ .Values.ports.data }}/v1"
- name: OPENAI_API_BASE
  value: "http://127.0.0.1:{{ .Values.ports.data }}/v1"
- name: AZURE_OPENAI_ENDPOINT
  value: "http://127.0.0.1:{{ .Values.ports.data }}"
{{- end }}

{{- define "baler.sidecar.volumes" -}}
{{- include "baler.volumes" (dict "context" . "configMap" (include "baler.sidecar.configMap" .)) }}
{{- end }}
