local g = import 'grafana.libsonnet';
function(c)
  local s = (import 'server.libsonnet')(c);
  local of = s.of;
  local rule = 'rule=~"$rule"';
  local decisions(decision) = of('sum by (rule) (rate(stint_decisions_total{%%(sel)s, %s, decision="%s"}[%%(w)s]))' % [rule, decision]);
  local byLimit(metric) = of('sum by (rule, limit) (rate(%s{%%(sel)s, %s}[%%(w)s]))' % [metric, rule]);
  s.dashboard('Rules', 'Each rule and limit: its use, who comes near it, and shadow rules against enforced ones.', [
    g.table('Limits in force', 'The limits of the chosen rules, as the nodes have them.', of('max by (rule, limit, tier, algorithm, mode, consistency, on_store_failure) (stint_limit_info{%%(sel)s, %s})' % rule)),

    g.table('Capacity', 'The greatest cost that an idle key is allowed at once.', of('max by (rule, limit, tier) (stint_limit_capacity{%%(sel)s, %s})' % rule), 8),
    g.table('Window', 'Seconds; of a bucket, the time from empty to full.', of('max by (rule, limit, tier) (stint_limit_window_seconds{%%(sel)s, %s})' % rule), 8),
    g.table('Rate', 'Units per second; of a limit that is no bucket, the limit divided by its window.', of('max by (rule, limit, tier) (stint_limit_rate{%%(sel)s, %s})' % rule), 8),

    g.row('Use'),
    g.series('Denied by limit', 'Requests per second that each limit denied.', 'reqps', [[byLimit('stint_limit_denials_total'), '{{rule}} {{limit}}']]),
    g.series('Near the limit', 'Requests per second that were allowed with little left (--near-limit).', 'reqps', [[byLimit('stint_limit_near_total'), '{{rule}} {{limit}}']]),
    g.series('Near the limit, of the allowed', 'Share of the requests that a rule allowed and that were near one of its limits.', 'percentunit', [[
      of(|||
        sum by (rule, limit) (rate(stint_limit_near_total{%%(sel)s, %s}[%%(w)s]))
        / on (rule) group_left ()
        (sum by (rule) (rate(stint_decisions_total{%%(sel)s, %s, decision=~"allow|shadow_deny"}[%%(w)s])) > 0)
      ||| % [rule, rule]),
      '{{rule}} {{limit}}',
    ]]),

    g.row('Shadow and enforced'),
    g.series('Allowed', 'Requests per second that each rule allowed.', 'reqps', [[decisions('allow'), '{{rule}}']]),
    g.series('Denied', 'Requests per second that each enforced rule denied.', 'reqps', [[decisions('deny'), '{{rule}}']]),
    g.series('Shadow', 'Requests per second that each rule in shadow mode would deny.', 'reqps', [[decisions('shadow_deny'), '{{rule}}']]),
    g.series('Denied share', 'Share of its requests that each rule denies: in five minutes, and in an hour.', 'percentunit', [
      [of('job_rule:stint_decisions:denied_share5m{job=~"$job", %s}' % rule), '{{rule}}, 5 minutes'],
      [of('job_rule:stint_decisions:denied_share1h{job=~"$job", %s}' % rule), '{{rule}}, 1 hour'],
    ]),
    g.series('Penalties begun', 'Per second, by rule and kind.', 'cps', [[of('sum by (rule, penalty) (rate(stint_penalties_total{%%(sel)s, %s}[%%(w)s]))' % rule), '{{rule}} {{penalty}}']]),
    g.series('Penalties in force', 'By rule and kind.', 'short', [[of('sum by (rule, penalty) (stint_penalties_active{%%(sel)s, %s})' % rule), '{{rule}} {{penalty}}']]),
    g.series('Denied by a penalty', 'Requests per second whose caller is being punished.', 'reqps', [[of('sum by (rule) (rate(stint_penalty_denials_total{%%(sel)s, %s}[%%(w)s]))' % rule), '{{rule}}']]),
    g.series('Lists', 'Requests per second that the allow list and the deny list decided.', 'reqps', [[of('sum by (decision) (rate(stint_decisions_total{%(sel)s, decision=~"whitelist|blacklist"}[%(w)s]))'), '{{decision}}']]),

    g.row('Canary'),
    g.series('Callers in the canary', 'Share of the callers that get the new rules of a canary, by node; 0 without one. Nodes that differ do not see the source of the rules.', 'percentunit', [[of('stint_canary_share{%(sel)s}'), '{{instance}}']]),
    g.series('Denied by each side', 'Share of the requests since the canary began that its rules denied (canary), and the old rules (control). Empty without a canary.', 'percentunit', [[
      of(|||
        sum by (side) (stint_canary_requests{%(sel)s, result="denied"})
        / (sum by (side) (stint_canary_requests{%(sel)s}) > 0)
      |||),
      '{{side}}',
    ]]),
    g.series('Requests of each side', 'Requests since the canary began, by side and result.', 'short', [[of('sum by (side, result) (stint_canary_requests{%(sel)s})'), '{{side}} {{result}}']]),
    g.series('Canaries that ended', 'By result and reason.', 'short', [[of('sum by (result, reason) (stint_canary_ends_total{%(sel)s})'), '{{result}} {{reason}}']]),

    g.row('How rules arrive'),
    g.series('Version in force', 'By node. Nodes that share a source and differ for long do not see it. Each node numbers the versions of rule files on its own.', 'short', [[of('stint_rules_version{%(sel)s}'), '{{instance}}']]),
    g.series('Source up', '0 after three failed polls in a row.', 'bool', [[of('stint_rules_source_up{%(sel)s}'), '{{instance}}']]),
    g.series('Age of the rules', 'Time since the source last confirmed the rules in force.', 's', [[of('time() - stint_rules_last_success_timestamp_seconds{%(sel)s}'), '{{instance}}']]),
    g.series('Reloads', 'Attempts per second to load changed rules, by result.', 'cps', [[of('sum by (result) (rate(stint_rules_reloads_total{%(sel)s}[%(w)s]))'), '{{result}}']]),
    g.series('Failed polls', 'Per second, by node.', 'cps', [[of('sum by (instance) (rate(stint_rules_poll_failures_total{%(sel)s}[%(w)s]))'), '{{instance}}']]),
    g.series('Rules from a local copy', '1 while the source has not confirmed the rules of an earlier run.', 'bool', [[of('stint_rules_stale{%(sel)s}'), '{{instance}}']]),
  ], [g.many('rule', 'Rule', 'label_values(stint_decisions_total{%s, job=~"$job"}, rule)' % c.stintSelector)])
