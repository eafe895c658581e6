// Alerts, recording rules and dashboards for Stint, in the form that mixins share: the
// fields prometheusAlerts, prometheusRules and grafanaDashboards.
(import 'config.libsonnet')
+ (import 'rules.libsonnet')
+ (import 'alerts.libsonnet')
+ (import 'dashboards.libsonnet')
