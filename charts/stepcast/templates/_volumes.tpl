{{/* Whole folders are mounted, never single files: a changed secret reaches
     the pod only so, and certificates and tokens are read again. */}}
{{- define "stepcast.mounts" -}}
{{- if include "stepcast.hasVolume" . }}
- name: data
  mountPath: /data
{{- end }}
{{- if include "stepcast.config" . }}
- name: config
  mountPath: /etc/stepcast/config
  readOnly: true
{{- end }}
{{- if .Values.calibration.existingConfigMap }}
- name: calibration
  mountPath: /etc/stepcast/calibration
  readOnly: true
{{- end }}
{{- if .Values.tls.secretName }}
- name: tls
  mountPath: /etc/stepcast/tls
  readOnly: true
{{- end }}
{{- if .Values.tokens.secretName }}
- name: tokens
  mountPath: /etc/stepcast/tokens
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "stepcast.volumes" -}}
{{- if include "stepcast.hasVolume" . }}
- name: data
  persistentVolumeClaim:
    claimName: {{ default (include "stepcast.fullname" .) .Values.persistence.existingClaim }}
{{- end }}
{{- if include "stepcast.config" . }}
- name: config
  configMap:
    name: {{ include "stepcast.fullname" . }}
{{- end }}
{{- with .Values.calibration.existingConfigMap }}
- name: calibration
  configMap:
    name: {{ . }}
{{- end }}
{{- with .Values.tls.secretName }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.tokens.secretName }}
- name: tokens
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
