local g = import 'grafana.libsonnet';
function(c)
  local s = (import 'server.libsonnet')(c);
  local of = s.of;
  local decisions(pattern) = of('sum by (rule) (rate(stint_decisions_total{%%(sel)s, rule!="", decision=~"%s"}[%%(w)s]))' % pattern);
  local latency(quantile) = of('histogram_quantile(%s, sum by (surface, le) (rate(stint_check_duration_seconds_bucket{%%(sel)s}[%%(w)s])))' % quantile);
  s.dashboard('Overview', 'Who is denied, why, whether the store is well, and what changed.', [
    g.number('Nodes', 'Servers that Prometheus scrapes.', 'short', of('sum(up{%(sel)s})')),
    g.number('Nodes not ready', 'Servers whose /readyz does not answer 200.', 'short', of('count(stint_ready{%(sel)s}) - sum(stint_ready{%(sel)s})'), 1),
    g.number('Store unreachable from', 'Nodes that a store does not answer, once for each store. The failure policy of each rule decides their requests.', 'short', of('count(stint_store_up{%(sel)s}) - sum(stint_store_up{%(sel)s})'), 1),
    g.number('Denied', 'Share of all requests that were denied.', 'percentunit', of('sum(rate(stint_requests_total{%(sel)s, outcome=~"deny|degraded_deny"}[%(w)s])) / sum(rate(stint_requests_total{%(sel)s}[%(w)s]))'), c.deniedShare),
    g.number('Not decided by the store', 'Share of all requests that ended with an error or by a failure policy.', 'percentunit', of('sum(rate(stint_requests_total{%(sel)s, outcome=~"degraded_.*|error"}[%(w)s])) / sum(rate(stint_requests_total{%(sel)s, outcome!="invalid"}[%(w)s]))'), 1 - c.availabilityObjective),
    g.number('Emergency', 'Nodes that obey an emergency.', 'short', of('sum(stint_emergency{%(sel)s})'), 1),

    g.row('Requests'),
    g.series('Requests', 'Requests per second, by their outcome.', 'reqps', [[of('sum by (outcome) (rate(stint_requests_total{%(sel)s}[%(w)s]))'), '{{outcome}}']]),
    g.series('Requests by surface', 'Where requests arrive.', 'reqps', [[of('sum by (surface) (rate(stint_requests_total{%(sel)s}[%(w)s]))'), '{{surface}}']]),
    g.series('Requests that no rule matches', 'Nothing limits these requests. A rise is a hole in the rules.', 'reqps', [[of('sum by (surface) (rate(stint_unmatched_total{%(sel)s}[%(w)s]))'), '{{surface}}']]),

    g.row('Rules'),
    g.series('Allowed', 'Requests per second that each rule allowed.', 'reqps', [[decisions('allow'), '{{rule}}']]),
    g.series('Denied', 'Requests per second that each rule denied.', 'reqps', [[decisions('deny'), '{{rule}}']]),
    g.series('Degraded', 'Requests per second that the failure policy of each rule decided, because the store did not.', 'reqps', [[decisions('error_.*'), '{{rule}}']]),

    g.row('Latency'),
    g.series('Median time of a check', 'From the request read to the decision made, by surface.', 's', [[latency('0.5'), '{{surface}}']]),
    g.series('99th percentile of a check', 'One check in a hundred takes at least this time, by surface.', 's', [[latency('0.99'), '{{surface}}']]),
    g.series('Versions', 'Nodes by version of the rules and of the program. Two lines for long mean that a change has not reached all nodes, unless rules are files: each node numbers their versions on its own.', 'short', [
      [of('count by (version) (count_values without () ("version", stint_rules_version{%(sel)s}))'), 'rules {{version}}'],
      [of('count by (version) (stint_build_info{%(sel)s})'), 'program {{version}}'],
    ]),
    g.series('Hot keys', 'Keys with at least --hot-key-rate requests per second, by node.', 'short', [[of('stint_hot_keys{%(sel)s}'), '{{instance}}']]),
    g.series('Failed authentication', 'Requests without a valid token, by listener.', 'reqps', [[of('sum by (listener) (rate(stint_auth_failures_total{%(sel)s}[%(w)s]))'), '{{listener}}']]),
    g.series('Decision log', 'Lines per second that the decision log dropped, by rule and reason.', 'cps', [[of('sum by (rule, reason) (rate(stint_decision_log_dropped_total{%(sel)s}[%(w)s]))'), '{{rule}} {{reason}}']]),
  ])
