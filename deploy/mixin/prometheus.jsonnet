// Renders the rule files of ../prometheus. scripts/mixin runs it.
local mixin = import 'mixin.libsonnet';
local header = '# Rendered from deploy/mixin by scripts/mixin. Change the sources, not this file.\n';
local render(v) = header + std.manifestYamlDoc(v, indent_array_in_object=true, quote_keys=false) + '\n';
{
  'alerts.yaml': render(mixin.prometheusAlerts),
  'rules.yaml': render(mixin.prometheusRules),
}
