{{- define "stepcast.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* A release that is named after the chart does not say it twice. */}}
{{- define "stepcast.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := include "stepcast.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "stepcast.selectorLabels" -}}
app.kubernetes.io/name: {{ include "stepcast.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Of pods: nothing that changes with the chart alone, which would restart them. */}}
{{- define "stepcast.podLabels" -}}
{{ include "stepcast.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with mustMergeOverwrite (deepCopy .Values.commonLabels) .Values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "stepcast.labels" -}}
{{ include "stepcast.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "stepcast.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "stepcast.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Roles know no namespace: releases of the same name must not share one. */}}
{{- define "stepcast.clusterRoleName" -}}
{{- printf "%s-%s" .Release.Namespace (include "stepcast.fullname" .) }}
{{- end }}

{{- define "stepcast.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* "true" where observations are kept on a volume: it has one writer. */}}
{{- define "stepcast.hasVolume" -}}
{{- if and .Values.persistence.enabled (le (int .Values.replicas) 1) }}true{{ end }}
{{- end }}

{{/* What the chart writes into a ConfigMap of its own; empty where nothing. */}}
{{- define "stepcast.config" -}}
{{- $files := dict }}
{{- with .Values.inventory.cluster }}
{{- $_ := set $files "cluster.yaml" . }}
{{- end }}
{{- with .Values.calibration.contents }}
{{- $_ := set $files "calibration.yaml" . }}
{{- end }}
{{- with .Values.observe }}
{{- $_ := set $files "observe.yaml" (toYaml .) }}
{{- end }}
{{- if $files }}
{{- toYaml $files }}
{{- end }}
{{- end }}

{{/* Values that contradict each other, in words: a schema cannot say why. */}}
{{- define "stepcast.check" -}}
{{- if and .Values.inventory.kube .Values.inventory.cluster }}
{{- fail "inventory.cluster is set while inventory.kube is true: say --set inventory.kube=false to serve the file" }}
{{- end }}
{{- if and .Values.calibration.contents .Values.calibration.existingConfigMap }}
{{- fail "calibration.contents and calibration.existingConfigMap are both set: only one can be in force" }}
{{- end }}
{{- if and (not .Values.tls.secretName) (or .Values.tls.clientCertificates .Values.tls.allowNames) }}
{{- fail "tls.clientCertificates and tls.allowNames need tls.secretName: client certificates come with TLS" }}
{{- end }}
{{- if and .Values.tls.allowNames (not .Values.tls.clientCertificates) }}
{{- fail "tls.allowNames needs tls.clientCertificates: without an authority no client certificate is looked at" }}
{{- end }}
{{- if and .Values.protectReading (not (or .Values.tls.allowNames .Values.tokens.secretName)) }}
{{- fail "protectReading needs tls.allowNames or tokens.secretName: nobody could read otherwise" }}
{{- end }}
{{- end }}
