{{- define "kruise.labels" -}}
app.kubernetes.io/name: kruise
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/*
A generated file (see `cargo xtask crds`), in the namespace of this release, with labels and annotations.
Takes a list: the root, the path, annotations.
*/}}
{{- define "kruise.generated" -}}
{{- $root := index . 0 }}
{{- $text := regexReplaceAll "(?s)^#.*?\n---\n" ($root.Files.Get (index . 1)) "" | trim }}
{{- $text = regexReplaceAll "(?m)(: |- )kruise-system$" $text (printf "${1}%s" $root.Values.installation.namespace) }}
{{- $metadata := printf "metadata:\n  labels:\n%s" (include "kruise.labels" $root | indent 4) }}
{{- with index . 2 }}
{{- $metadata = printf "%s\n  annotations:\n%s" $metadata (toYaml . | indent 4) }}
{{- end }}
{{- regexReplaceAllLiteral "(?m)^metadata:$" $text $metadata }}
{{- end }}

{{/* Those of values.yaml after our own, as the last word on a gate counts (G-03). */}}
{{- define "kruise.featureGates" -}}
{{- $ours := "ImagePullJobGate=true,ResourceDistributionGate=true" }}
{{- with .Values.featureGates }}{{ printf "%s,%s" $ours . }}{{ else }}{{ $ours }}{{ end }}
{{- end }}

{{- define "kruise.image" -}}
{{ .Values.manager.image.repository }}:{{ .Values.manager.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "kruise.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}
