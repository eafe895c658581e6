// Recording rules: the shares and rates that alerts and dashboards both use. A name says
// the labels that are left, the metric, and the window.
{
  local c = $._config,
  local sel = c.stintSelector,

  // badShare is the share of the valid requests that the store did not decide.
  local badShare(window) = |||
    sum by (job) (rate(stint_requests_total{%(sel)s, outcome=~"degraded_.*|error"}[%(window)s]))
    / (sum by (job) (rate(stint_requests_total{%(sel)s, outcome!="invalid"}[%(window)s])) > 0)
  ||| % { sel: sel, window: window },

  // deniedShare is the share of the requests under a rule that the rule denied. A rule without
  // requests has the share 0, so that an alert can compare with a quiet hour.
  local deniedShare(window) = |||
    sum by (job, rule) (rate(stint_decisions_total{%(sel)s, rule!="", decision="deny"}[%(window)s]))
    / clamp_min(sum by (job, rule) (rate(stint_decisions_total{%(sel)s, rule!=""}[%(window)s])), 0.001)
  ||| % { sel: sel, window: window },

  prometheusRules+:: {
    groups+: [
      {
        name: 'stint-requests',
        rules: [
          {
            record: 'job_outcome:stint_requests:rate5m',
            expr: 'sum by (job, outcome) (rate(stint_requests_total{%s}[5m]))\n' % sel,
          },
          {
            record: 'job_rule:stint_decisions:rate5m',
            expr: 'sum by (job, rule) (rate(stint_decisions_total{%s, rule!=""}[5m]))\n' % sel,
          },
          { record: 'job_rule:stint_decisions:denied_share5m', expr: deniedShare('5m') },
          { record: 'job_rule:stint_decisions:denied_share1h', expr: deniedShare('1h') },
        ],
      },
      {
        name: 'stint-store',
        rules: [
          {
            record: 'job_store_shard:stint_store_duration_seconds:p99_5m',
            expr: 'histogram_quantile(0.99, sum by (job, store, shard, le) (rate(stint_store_duration_seconds_bucket{%s}[5m])))\n' % sel,
          },
        ],
      },
      {
        name: 'stint-availability',
        rules: [
          { record: 'job:stint_requests:bad_share%s' % window, expr: badShare(window) }
          for window in ['5m', '30m', '1h', '6h']
        ],
      },
    ],
  },
}
