{{- define "hub.labels" -}}
app.kubernetes.io/name: kruise-hub
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* Selectors of a Deployment cannot be changed, so nothing that changes is in them. */}}
{{- define "hub.selector" -}}
app.kubernetes.io/name: kruise-hub
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/*
A generated file (see `cargo xtask crds`) with labels and annotations.
Takes a list: the root, the path, annotations.
*/}}
{{- define "hub.generated" -}}
{{- $root := index . 0 }}
{{- $text := regexReplaceAll "(?s)^#.*?\n---\n" ($root.Files.Get (index . 1)) "" | trim }}
{{- $metadata := printf "metadata:\n  labels:\n%s" (include "hub.labels" $root | indent 4) }}
{{- with index . 2 }}
{{- $metadata = printf "%s\n  annotations:\n%s" $metadata (toYaml . | indent 4) }}
{{- end }}
{{- regexReplaceAllLiteral "(?m)^metadata:$" $text $metadata }}
{{- end }}
