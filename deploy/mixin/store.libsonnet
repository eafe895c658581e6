local g = import 'grafana.libsonnet';
function(c)
  local s = (import 'server.libsonnet')(c);
  local of = s.of;
  local latency(quantile) = of('histogram_quantile(%s, sum by (store, shard, le) (rate(stint_store_duration_seconds_bucket{%%(sel)s}[%%(w)s])))' % quantile);
  local perStore(metric) = [[of('%s{%%(sel)s}' % metric), '{{instance}} {{store}}']];
  s.dashboard('Store', 'The store that counts: latency, errors, circuit breakers, clocks and leases, by shard.', [
    g.number('Store unreachable from', 'Nodes that a store does not answer, once for each store.', 'short', of('count(stint_store_up{%(sel)s}) - sum(stint_store_up{%(sel)s})'), 1),
    g.number('Open circuit breakers', 'Pairs of a node and a shard whose checks are not sent.', 'short', of('sum(stint_store_breaker_open{%(sel)s})'), 1),
    g.number('Largest clock skew', 'Between a node and a shard.', 's', of('max(abs(stint_clock_skew_seconds{%(sel)s}))'), c.clockSkewSeconds),
    g.number('Nodes that share the store', 'As the store has it.', 'short', of('max(stint_store_nodes{%(sel)s})')),
    g.number('99th percentile of a call', 'Over all shards.', 's', of('histogram_quantile(0.99, sum by (le) (rate(stint_store_duration_seconds_bucket{%(sel)s}[%(w)s])))'), c.storeP99Seconds),
    g.number('Failed calls', 'Share of the calls to the store that brought no decision.', 'percentunit', of('sum(rate(stint_store_errors_total{%(sel)s}[%(w)s])) / sum(rate(stint_store_duration_seconds_count{%(sel)s}[%(w)s]))'), 0.01),

    g.row('Calls'),
    g.series('Calls', 'Calls per second, by shard. One call can decide several checks.', 'cps', [[of('sum by (store, shard) (rate(stint_store_duration_seconds_count{%(sel)s}[%(w)s]))'), '{{store}} {{shard}}']]),
    g.series('Median time of a call', 'By shard.', 's', [[latency('0.5'), '{{store}} {{shard}}']]),
    g.series('99th percentile of a call', 'By shard.', 's', [[latency('0.99'), '{{store}} {{shard}}'], [of('max by (store, shard) (job_store_shard:stint_store_duration_seconds:p99_5m{job=~"$job"})'), '{{store}} {{shard}}, 5 minutes']]),
    g.series('Errors', 'Calls per second that brought no decision, by shard and kind.', 'cps', [[of('sum by (store, shard, kind) (rate(stint_store_errors_total{%(sel)s}[%(w)s]))'), '{{store}} {{shard}} {{kind}}']]),
    g.series('Missing scripts', 'Calls per second that found their script missing in the store. A store that restarts loses its scripts.', 'cps', [[of('sum by (instance) (rate(stint_noscript_total{%(sel)s}[%(w)s]))'), '{{instance}}']]),
    g.series('Store up', '1 while the store answers the node.', 'bool', perStore('stint_store_up')),

    g.row('Failures'),
    g.series('Open circuit breakers', 'By node and shard: 1 while checks are not sent.', 'bool', [[of('stint_store_breaker_open{%(sel)s}'), '{{instance}} {{store}} {{shard}}']]),
    g.series('Breaker openings', 'Openings per second, by shard.', 'cps', [[of('sum by (store, shard) (rate(stint_store_breaker_opens_total{%(sel)s}[%(w)s]))'), '{{store}} {{shard}}']]),
    g.series('Refused by breakers', 'Calls per second that an open breaker did not send, by shard.', 'cps', [[of('sum by (store, shard) (rate(stint_store_breaker_refused_total{%(sel)s}[%(w)s]))'), '{{store}} {{shard}}']]),
    g.series('Degraded decisions', 'Decisions per second by a failure policy, by policy and shard.', 'reqps', [[of('sum by (policy, store, shard) (rate(stint_degraded_decisions_total{%(sel)s}[%(w)s]))'), '{{policy}} {{store}} {{shard}}']]),
    g.series('Items evicted by the store', 'Items per second that a server of the store evicted to make room. Their keys have a fresh allowance.', 'cps', [[of('max by (store, shard) (rate(stint_store_evictions_total{%(sel)s}[%(w)s]))'), '{{store}} {{shard}}']]),
    g.series('Kept charges', 'Charges per second of denied requests over several stores that were not undone.', 'cps', [[of('sum by (instance) (rate(stint_store_kept_charges_total{%(sel)s}[%(w)s]))'), '{{instance}}']]),

    g.row('Clocks'),
    g.series('Clock skew', "How far the shard's clock is ahead of the node's.", 's', [[of('stint_clock_skew_seconds{%(sel)s}'), '{{instance}} {{store}} {{shard}}']]) + g.signed,
    g.series('Age of the skew', 'Time since the skew was measured. A rise means that the shard does not answer.', 's', [[of('time() - stint_clock_skew_measured_timestamp_seconds{%(sel)s}'), '{{instance}} {{store}} {{shard}}']]),

    g.row('Leases'),
    g.series('Leased keys', 'Hot keys whose tokens a node holds in advance.', 'short', perStore('stint_lease_keys')),
    g.series('Tokens held', 'Tokens that are charged and not yet spent.', 'short', perStore('stint_lease_tokens_held')),
    g.series('Local decisions', 'Checks per second that a lease decided without a call to the store, against those that asked.', 'reqps', [
      [of('sum by (decision) (rate(stint_lease_local_total{%(sel)s}[%(w)s]))'), 'local {{decision}}'],
      [of('sum(rate(stint_lease_asked_total{%(sel)s}[%(w)s]))'), 'asked'],
    ]),
    g.series('Tokens of leases', 'Tokens per second that leases were granted, returned, or lost.', 'cps', [[of('sum by (kind) (rate(stint_lease_tokens_total{%(sel)s}[%(w)s]))'), '{{kind}}']]),
    g.series('Renewals', 'Background calls per second, each for many keys.', 'cps', [[of('sum by (instance) (rate(stint_lease_renewals_total{%(sel)s}[%(w)s]))'), '{{instance}}']]),

    g.row('Memory store'),
    g.series('Fullness', 'Share of the keys that --max-keys allows. Expired keys count until new keys take their place.', 'percentunit', [[of('stint_keys{%(sel)s} / stint_keys_max{%(sel)s}'), '{{instance}}']]),
    g.series('Evictions', 'Keys per second that were evicted before they expired, or decided as fresh and not stored.', 'cps', [
      [of('sum by (instance) (rate(stint_evictions_total{%(sel)s}[%(w)s]))'), '{{instance}} evicted'],
      [of('sum by (instance) (rate(stint_unstored_total{%(sel)s}[%(w)s]))'), '{{instance}} not stored'],
    ]),
    g.series("Callers' limits", 'Checks per second of limits that callers bring, refused because their share is used up.', 'reqps', [[of('sum by (instance) (rate(stint_caller_refused_total{%(sel)s}[%(w)s]))'), '{{instance}}']]),
  ])
