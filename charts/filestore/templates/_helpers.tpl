{{- define "filestore.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* For ever these two: the selector of a Deployment cannot change. The same as the operator's. */}}
{{- define "filestore.selector" -}}
filestore.ryax.tech/component: gateway
filestore.ryax.tech/name: {{ include "filestore.name" . }}
{{- end -}}

{{/*
Labels of objects. "filestore.ryax.tech/name" is not among them: by it the operator knows what it made, and what a chart
made is not to be taken for that. "store" tells two stores of one release apart.
*/}}
{{- define "filestore.labels" -}}
app.kubernetes.io/name: filestore
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
filestore.ryax.tech/store: {{ include "filestore.name" . }}
{{- end -}}

{{/* Labels of the pod: without the chart's version, so that a new chart alone starts no pod again. */}}
{{- define "filestore.podLabels" -}}
{{- $labels := dict "app.kubernetes.io/name" "filestore" "app.kubernetes.io/component" "gateway" "app.kubernetes.io/managed-by" "filestore" -}}
{{- range $key, $value := .Values.pod.labels -}}
{{- if hasPrefix "filestore.ryax.tech" $key -}}
{{- fail (printf "pod.labels: %q is set by the chart itself; remove it" $key) -}}
{{- end -}}
{{- $_ := set $labels $key $value -}}
{{- end -}}
{{- toYaml (merge (include "filestore.selector" . | fromYaml) $labels) -}}
{{- end -}}

{{/* An image, with the registry of "global.imageRegistry" instead of its own. */}}
{{- define "filestore.image" -}}
{{- $image := .image -}}
{{- if or (hasSuffix ":latest" $image) (not $image) -}}
{{- fail (printf "%s: %q does not say which version; use repository:tag or repository@sha256:…, not latest" .field $image) -}}
{{- end -}}
{{- with (.global | default dict).imageRegistry -}}
{{- $parts := splitList "/" $image -}}
{{- $first := first $parts -}}
{{- if and (gt (len $parts) 1) (or (contains "." $first) (contains ":" $first) (eq "localhost" $first)) -}}
{{- $image = join "/" (rest $parts) -}}
{{- end -}}
{{- $image = printf "%s/%s" (trimSuffix "/" .) $image -}}
{{- end -}}
{{- $image -}}
{{- end -}}

{{- define "filestore.ownImage" -}}
{{- include "filestore.image" (dict "image" .Values.image "field" "image" "global" .Values.global) -}}
{{- end -}}

{{- define "filestore.versitygwImage" -}}
{{- include "filestore.image" (dict "image" .Values.versitygw.image "field" "versitygw.image" "global" .Values.global) -}}
{{- end -}}

{{/* Names and objects are both taken, as other charts write global.imagePullSecrets either way. */}}
{{- define "filestore.pullSecrets" -}}
{{- $secrets := list -}}
{{- range concat ((.Values.global | default dict).imagePullSecrets | default list) .Values.imagePullSecrets -}}
{{- $secrets = append $secrets (dict "name" (kindIs "string" . | ternary . (get (kindIs "map" . | ternary . dict) "name"))) -}}
{{- end -}}
{{- if $secrets -}}
{{- toYaml (uniq $secrets) -}}
{{- end -}}
{{- end -}}

{{- define "filestore.claim" -}}
{{- .Values.storage.existingClaim | default (include "filestore.name" .) -}}
{{- end -}}

{{- define "filestore.secret" -}}
{{- required "credentials.secretRef.name: name the Secret that holds the root access key and secret key (kubectl create secret generic root-keys --from-literal root-user=… --from-literal root-password=…)" .Values.credentials.secretRef.name -}}
{{- end -}}

{{/* "online", "offline" or nothing. */}}
{{- define "filestore.migration" -}}
{{- $source := .Values.migration.source -}}
{{- if and $source.endpoint $source.existingClaim -}}
{{- fail "migration.source: set endpoint (a running store) or existingClaim (the drive of a stopped one), not both" -}}
{{- end -}}
{{- if and $source.existingClaim (eq $source.existingClaim (include "filestore.claim" .)) -}}
{{- fail (printf "migration.source.existingClaim: %q is also the target; the legacy volume is only ever read, give the store a volume of its own" $source.existingClaim) -}}
{{- end -}}
{{- if $source.endpoint -}}online{{- else if $source.existingClaim -}}offline{{- end -}}
{{- end -}}

{{/* Of the S3 port, as in a URL and as the name of a Service's port: meshes go by it. */}}
{{- define "filestore.protocol" -}}
{{- if .Values.tls.secretRef.name -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{- define "filestore.endpoint" -}}
{{ include "filestore.protocol" . }}://{{ include "filestore.name" . }}.{{ .Release.Namespace }}:{{ .Values.service.port }}
{{- end -}}

{{/* What all containers have in common. */}}
{{- define "filestore.container" -}}
{{- with .Values.imagePullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- with .Values.pod.resources }}
resources: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "filestore.owner" -}}
- name: FILESTORE_OWNER
  valueFrom: {secretKeyRef: {name: {{ include "filestore.secret" . | quote }}, key: {{ .Values.credentials.keys.accessKey | quote }}}}
{{- end -}}

{{- define "filestore.metadataArgs" -}}
{{- if ne "auto" .Values.storage.metadata }}
- --metadata
- {{ .Values.storage.metadata }}
{{- end }}
{{- end -}}
