{{- define "filestore-operator.labels" -}}
app.kubernetes.io/name: filestore-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* For ever these: the selector of a Deployment cannot change. */}}
{{- define "filestore-operator.selector" -}}
app.kubernetes.io/name: filestore-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* manifests/operator/role.yaml, without what only the operator's own namespace needs. */}}
{{- define "filestore-operator.rules" -}}
- apiGroups: [filestore.ryax.tech]
  resources: [filestores]
  verbs: [get, list, watch]
- apiGroups: [filestore.ryax.tech]
  resources: [filestores/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [services, serviceaccounts, persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [monitoring.coreos.com]
  resources: [servicemonitors, prometheusrules]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch, get, create, patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
