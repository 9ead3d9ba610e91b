{{/* Takes the legacy store over before anything serves; finds its marker and ends at once the next time. */}}
{{- define "filestore.migrate" -}}
{{- $source := .Values.migration.source -}}
- name: migrate
  image: {{ include "filestore.ownImage" . }}
  args:
    - migrate
    - run
    - --from
    {{- if $source.endpoint }}
    - {{ $source.endpoint | trimSuffix "/" | quote }}
    {{- else }}
    - {{ list "minio-drive:/source" ($source.path | trimAll "/") | compact | join "/" | quote }}
    {{- end }}
    - --to
    - volume:/data
    - --verify
    - {{ .Values.migration.verify }}
    {{- with .Values.migration.id }}
    - --id
    - {{ . | quote }}
    {{- end }}
    {{- with .Values.migration.parallelism }}
    - --parallel
    - {{ . | toString | quote }}
    {{- end }}
    {{- range .Values.migration.buckets }}
    - --bucket
    - {{ list .name (eq .name (.target | default .name) | ternary "" .target) | compact | join "=" | quote }}
    {{- end }}
    {{- with .Values.migration.bandwidth }}
    - --bandwidth
    - {{ . | quote }}
    {{- end }}
    {{- with .Values.migration.deadline }}
    - --deadline
    - {{ . | quote }}
    {{- end }}
    {{- with .Values.migration.maxDelete | toString }}
    - --max-delete
    - {{ . | quote }}
    {{- end }}
  env:
    {{- include "filestore.owner" . | nindent 4 }}
    - {name: FILESTORE_ADMIN_ADDR, value: "0.0.0.0:9090"}
    - {name: FILESTORE_SUMMARY_FILE, value: /dev/termination-log}
    {{- if $source.endpoint }}
    {{- $keys := .Values.credentials }}
    {{- if $source.credentials.secretRef.name }}{{ $keys = $source.credentials }}{{ end }}
    - name: FILESTORE_FROM_ACCESS_KEY
      valueFrom: {secretKeyRef: {name: {{ $keys.secretRef.name | quote }}, key: {{ $keys.keys.accessKey | quote }}}}
    - name: FILESTORE_FROM_SECRET_KEY
      valueFrom: {secretKeyRef: {name: {{ $keys.secretRef.name | quote }}, key: {{ $keys.keys.secretKey | quote }}}}
    {{- end }}
  # Killed, it writes no summary; the last lines of its log are better than nothing.
  terminationMessagePolicy: FallbackToLogsOnError
  volumeMounts:
    - {name: data, mountPath: /data}
    {{- if $source.existingClaim }}
    - {name: source, mountPath: /source, readOnly: true}
    {{- end }}
  {{- include "filestore.container" . | nindent 2 }}
{{- end -}}
