// The dashboards. A panel's description says what a reader should see in it.
{
  local c = $._config,
  grafanaDashboards+:: {
    'overview.json': (import 'overview.libsonnet')(c),
    'store.json': (import 'store.libsonnet')(c),
    'rules.json': (import 'ruleset.libsonnet')(c),
    'gateway.json': (import 'gateway.libsonnet')(c),
    'clients.json': (import 'clients.libsonnet')(c),
  },
}
