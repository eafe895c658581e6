// The client library's own metrics, which programs export with contrib/stintprom.
local g = import 'grafana.libsonnet';
function(c)
  local sel = '%s, job=~"$job", dependency=~"$dependency"' % c.clientSelector;
  local of(query) = query % { sel: sel, w: c.window };
  local perSecond(metric, labels) = of('sum by (%s) (rate(%s{%%(sel)s}[%%(w)s]))' % [labels, metric]);
  local latency(quantile) = of('histogram_quantile(%s, sum by (dependency, le) (rate(stint_client_call_duration_seconds_bucket{%%(sel)s}[%%(w)s])))' % quantile);
  g.dashboard('Clients', 'Programs that call a dependency through the client library: calls, retries, breakers and bulkheads.', c.dashboardTags, [
    g.many('job', 'Job', 'label_values(stint_client_calls_total{%s}, job)' % c.clientSelector),
    g.many('dependency', 'Dependency', 'label_values(stint_client_calls_total{%s, job=~"$job"}, dependency)' % c.clientSelector),
  ], [], [
    g.row('Calls'),
    g.series('Calls', 'Per second, their attempts taken together, by dependency and result.', 'reqps', [[perSecond('stint_client_calls_total', 'dependency, result'), '{{dependency}} {{result}}']]),
    g.series('Median time of a call', 'With its retries and waits.', 's', [[latency('0.5'), '{{dependency}}']]),
    g.series('99th percentile of a call', 'With its retries and waits.', 's', [[latency('0.99'), '{{dependency}}']]),
    g.series('Attempts', 'Attempts per second that were sent.', 'reqps', [[perSecond('stint_client_attempts_total', 'dependency, result'), '{{dependency}} {{result}}']]),
    g.series('Attempts for a call', 'More than one means retries.', 'short', [[of('sum by (dependency) (rate(stint_client_attempts_total{%(sel)s}[%(w)s])) / sum by (dependency) (rate(stint_client_calls_total{%(sel)s}[%(w)s]))'), '{{dependency}}']]),
    g.series('Retries', 'Decisions per second after a failed attempt.', 'cps', [[perSecond('stint_client_retries_total', 'dependency, decision'), '{{dependency}} {{decision}}']]),

    g.row('Protection'),
    g.series('Refused', 'Attempts per second that were not sent, by the part that refused them.', 'reqps', [[perSecond('stint_client_refused_total', 'dependency, part'), '{{dependency}} {{part}}']]),
    g.series('Breaker', 'State of the circuit breaker: 1 for the current state.', 'short', [[of('sum by (dependency, state) (stint_client_breaker_state{%(sel)s})'), '{{dependency}} {{state}}']]),
    g.series('Bulkhead', 'Calls that hold a place or wait for one, and the limit.', 'short', [
      [of('sum by (dependency) (stint_client_bulkhead_in_use{%(sel)s})'), '{{dependency}} in use'],
      [of('sum by (dependency) (stint_client_bulkhead_waiting{%(sel)s})'), '{{dependency}} waiting'],
      [of('sum by (dependency) (stint_client_bulkhead_limit{%(sel)s})'), '{{dependency}} limit'],
    ]),
    g.series('Retry budget left', 'Retries that the budget still allows.', 'short', [[of('sum by (dependency) (stint_client_budget_left{%(sel)s})'), '{{dependency}}']]),
  ])
