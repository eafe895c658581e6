local g = import 'grafana.libsonnet';
function(c)
  local s = (import 'server.libsonnet')(c);
  local of = s.of;
  local route = 'route=~"$route"';
  local upstream = 'upstream=~"$upstream"';
  local latency(quantile) = of('histogram_quantile(%s, sum by (route, le) (rate(stint_gateway_duration_seconds_bucket{%%(sel)s, %s}[%%(w)s])))' % [quantile, route]);
  local upstreamLatency(quantile) = of('histogram_quantile(%s, sum by (upstream, le) (rate(stint_gateway_upstream_duration_seconds_bucket{%%(sel)s, %s}[%%(w)s])))' % [quantile, upstream]);
  local perSecond(metric, labels, which) = of('sum by (%s) (rate(%s{%%(sel)s, %s}[%%(w)s]))' % [labels, metric, which]);
  s.dashboard('Gateway', 'Requests through the gateway, and the upstreams behind it.', [
    g.number('Requests', 'Requests per second that the rules allowed.', 'reqps', of('sum(rate(stint_gateway_requests_total{%(sel)s}[%(w)s]))')),
    g.number('Answered with 5xx', 'Share of the requests that the rules allowed.', 'percentunit', of('sum(rate(stint_gateway_requests_total{%(sel)s, status="5xx"}[%(w)s])) / sum(rate(stint_gateway_requests_total{%(sel)s}[%(w)s]))'), 0.01),
    g.number('In flight', 'Streams that have begun included.', 'short', of('sum(stint_gateway_requests_in_flight{%(sel)s})')),
    g.number('Servers not in use', 'Upstream servers that are down, ejected, or behind an open circuit.', 'short', of('sum(stint_gateway_upstream_servers{%(sel)s, state!="up"})'), 1),
    g.number('Shed', 'Requests per second answered with 503, because too many were in flight.', 'reqps', of('sum(rate(stint_gateway_shed_total{%(sel)s}[%(w)s]))'), 1),
    g.number('Connections ended', 'Per second, because of denials in a row.', 'cps', of('sum(rate(stint_gateway_connections_closed_total{%(sel)s}[%(w)s]))')),

    g.row('Routes'),
    g.series('Answers', 'Per second, by route and status class.', 'reqps', [[perSecond('stint_gateway_requests_total', 'route, status', route), '{{route}} {{status}}']]),
    g.series('Median time to an answer', 'By route, until the answer begins.', 's', [[latency('0.5'), '{{route}}']]),
    g.series('99th percentile to an answer', 'By route, until the answer begins.', 's', [[latency('0.99'), '{{route}}']]),
    g.series('In flight', 'By route.', 'short', [[of('sum by (route) (stint_gateway_requests_in_flight{%%(sel)s, %s})' % route), '{{route}}']]),
    g.series('In flight and their limit', 'With --gateway-adapt. Beyond the limit the gateway answers 503.', 'short', [
      [of('sum by (instance) (stint_gateway_in_flight_limit{%(sel)s})'), '{{instance}} limit'],
      [of('sum by (instance) (stint_gateway_in_flight{%(sel)s})'), '{{instance}} in flight'],
    ]),
    g.series('Fallbacks', 'Requests per second that a fallback answered, because no upstream did.', 'reqps', [[perSecond('stint_gateway_fallbacks_total', 'route', route), '{{route}}']]),

    g.row('Upstreams'),
    g.series('Answers of upstreams', 'Per second, by group and status class, requests sent again included.', 'reqps', [[perSecond('stint_gateway_upstream_responses_total', 'upstream, status', upstream), '{{upstream}} {{status}}']]),
    g.series('Median time of upstreams', 'From a request sent to the beginning of its answer, by group.', 's', [[upstreamLatency('0.5'), '{{upstream}}']]),
    g.series('99th percentile of upstreams', 'From a request sent to the beginning of its answer, by group.', 's', [[upstreamLatency('0.99'), '{{upstream}}']]),
    g.series('Failures', 'Per second, before an answer began, by group and kind.', 'cps', [[perSecond('stint_gateway_upstream_failures_total', 'upstream, kind', upstream), '{{upstream}} {{kind}}']]),
    g.series('Servers', 'By group and state.', 'short', [[of('sum by (upstream, state) (stint_gateway_upstream_servers{%%(sel)s, %s})' % upstream), '{{upstream}} {{state}}']]),
    g.series('Circuits and ejections', 'Per second, by group.', 'cps', [
      [perSecond('stint_gateway_circuit_openings_total', 'upstream', upstream), '{{upstream}} opened'],
      [perSecond('stint_gateway_ejections_total', 'upstream', upstream), '{{upstream}} ejected'],
      [perSecond('stint_gateway_panics_total', 'upstream', upstream), '{{upstream}} too few usable'],
    ]),
    g.series('Requests sent again', 'Per second, by group: sent, or refused by the budget.', 'reqps', [[perSecond('stint_gateway_retries_total', 'upstream, result', upstream), '{{upstream}} {{result}}']]),
    g.series('Bulkheads', 'Requests that hold a place or wait for one, by group.', 'short', [
      [of('sum by (upstream) (stint_gateway_bulkhead_in_flight{%%(sel)s, %s})' % upstream), '{{upstream}} in flight'],
      [of('sum by (upstream) (stint_gateway_bulkhead_waiting{%%(sel)s, %s})' % upstream), '{{upstream}} waiting'],
    ]),
    g.series('Refused by bulkheads', 'Per second, by group and reason.', 'reqps', [[perSecond('stint_gateway_bulkhead_refused_total', 'upstream, reason', upstream), '{{upstream}} {{reason}}']]),

    g.row('Clients that never back off'),
    g.series('Connections refused', 'Per second, by reason.', 'cps', [[of('sum by (reason) (rate(stint_gateway_connections_refused_total{%(sel)s}[%(w)s]))'), '{{reason}}']]),
    g.series('Addresses refused', 'Client addresses per second that begin to be refused.', 'cps', [[of('sum by (instance) (rate(stint_gateway_refusals_total{%(sel)s}[%(w)s]))'), '{{instance}}']]),
    g.series('Connections without a bound', 'Per second, because the table of addresses had no room.', 'cps', [[of('sum by (instance) (rate(stint_gateway_connections_untracked_total{%(sel)s}[%(w)s]))'), '{{instance}}']]),
  ], [
    g.many('route', 'Route', 'label_values(stint_gateway_requests_total{%s, job=~"$job"}, route)' % c.stintSelector),
    g.many('upstream', 'Upstream', 'label_values(stint_gateway_upstream_servers{%s, job=~"$job"}, upstream)' % c.stintSelector),
  ])
