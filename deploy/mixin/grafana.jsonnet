// Renders the dashboards of ../grafana/dashboards. scripts/mixin runs it.
(import 'mixin.libsonnet').grafanaDashboards
