// The alerts. Each has a page of its own in docs/runbooks.
//
// "critical" means that requests are decided wrongly or not at all now; "warning" means
// that they soon may be, or that somebody should look at it within the day.
{
  local c = $._config,

  local alert(name, severity, summary, description, expr) = {
    alert: name,
    expr: expr % (c { sel: c.stintSelector, budget: 1 - c.availabilityObjective }),
    'for': c.holds[name],
    labels: { severity: severity },
    annotations: {
      summary: summary,
      description: description,
      runbook_url: c.runbookPrefix + name + '.md',
    },
  },

  // burn is an availability alert: both windows burn the error budget of 30 days this
  // many times as fast as it lasts. The short window ends the alert soon after the cause.
  local burn(severity, rate, long, short) =
    alert(
      'StintAvailabilityBurn',
      severity,
      'Too many requests of {{ $labels.job }} are not decided by the store.',
      '{{ $value | humanizePercentage }} of the requests in the last %s ended with an error or by a failure policy. The error budget of 30 days lasts %s or less at this rate.' % [long, if rate > 10 then 'two days' else 'five days'],
      |||
        job:stint_requests:bad_share%(long)s > %(factor)s * %%(budget).6g
        and
        job:stint_requests:bad_share%(short)s > %(factor)s * %%(budget).6g
      ||| % { long: long, short: short, factor: rate },
    ) + { labels+: { window: long } },

  prometheusAlerts+:: {
    groups+: [
      {
        name: 'stint-store',
        rules: [
          alert(
            'StintStoreDown',
            'critical',
            'The store{{ with $labels.store }} {{ . }}{{ end }}, or a server of it, does not answer {{ $labels.instance }}.',
            'The failure policy of each rule decides the requests whose server does not answer.',
            |||
              stint_store_up{%(sel)s} == 0
            |||,
          ),
          // A rule in shadow mode admits nothing, so it is left out.
          alert(
            'StintFailOpen',
            'critical',
            'Rules of {{ $labels.job }} fail open{{ with $labels.store }} in store {{ . }}{{ end }}{{ with $labels.shard }} for shard {{ . }}{{ end }}.',
            '{{ $value | humanizePercentage }} of all decisions admitted a request without the store, because this shard does not answer and the rule fails open.',
            |||
              sum by (job, store, shard) (rate(stint_degraded_decisions_total{%(sel)s, policy="open"}[1m]))
              / on (job) group_left ()
              (sum by (job) (rate(stint_degraded_decisions_total{%(sel)s, policy="open"}[1m])) > 0)
              * on (job) group_left () (
                sum by (job) (
                  rate(stint_decisions_total{%(sel)s, decision="error_open"}[1m])
                  unless on (job, instance, rule) stint_limit_info{%(sel)s, mode="shadow"}
                )
                / sum by (job) (
                  rate(stint_decisions_total{%(sel)s}[1m])
                  unless on (job, instance, rule) stint_limit_info{%(sel)s, mode="shadow"}
                )
              )
              > 0
            |||,
          ),
          alert(
            'StintBreakerOpen',
            'critical',
            'A circuit breaker of {{ $labels.instance }} is open{{ with $labels.store }} in store {{ . }}{{ end }}{{ with $labels.shard }} for shard {{ . }}{{ end }}.',
            'The node sends no checks to this server of the store, because its calls failed or took too long. The failure policy decides them.',
            |||
              stint_store_breaker_open{%(sel)s} == 1
            |||,
          ),
          alert(
            'StintStoreSlow',
            'warning',
            'The store{{ with $labels.store }} {{ . }}{{ end }} of {{ $labels.job }} is slow{{ with $labels.shard }} on shard {{ . }}{{ end }}.',
            'One call to the store in a hundred takes {{ $value | humanizeDuration }} or longer.',
            |||
              job_store_shard:stint_store_duration_seconds:p99_5m > %(storeP99Seconds)g
            |||,
          ),
          alert(
            'StintClockSkew',
            'warning',
            'The clocks of {{ $labels.instance }} and of the store{{ with $labels.store }} {{ . }}{{ end }} differ{{ with $labels.shard }} on shard {{ . }}{{ end }}.',
            'They differ by {{ $value | humanizeDuration }}. Windows and refills that one clock begins end early or late by the other.',
            |||
              abs(stint_clock_skew_seconds{%(sel)s}) > %(clockSkewSeconds)g
            |||,
          ),
          alert(
            'StintStoreEvictions',
            'warning',
            'The store{{ with $labels.store }} {{ . }}{{ end }} of {{ $labels.job }} evicts items on shard {{ $labels.shard }}.',
            '{{ $value | humanize }} items per second are evicted to make room. A key whose item is evicted has a fresh allowance.',
            |||
              max by (job, store, shard) (rate(stint_store_evictions_total{%(sel)s}[5m])) > 0
            |||,
          ),
          alert(
            'StintQuorumServer',
            'warning',
            'The server {{ $labels.server }} of the quorum{{ with $labels.store }} {{ . }}{{ end }} of {{ $labels.job }} is down or lacks counts.',
            'The store decides while a majority of its servers answers and has all counts. It survives one failure less.',
            |||
              max by (job, store, server) (stint_store_server_up{%(sel)s} * stint_store_server_whole{%(sel)s}) < 1
            |||,
          ),
        ],
      },
      {
        name: 'stint-traffic',
        rules: [
          alert(
            'StintRejectionRate',
            'warning',
            '{{ $labels.job }} denies many requests.',
            '{{ $value | humanizePercentage }} of all requests in the last five minutes were denied.',
            |||
              sum by (job) (job_outcome:stint_requests:rate5m{outcome=~"deny|degraded_deny"})
              / sum by (job) (job_outcome:stint_requests:rate5m)
              > %(deniedShare)g
            |||,
          ),
          // The hour ends 15 minutes ago. With a later end, a jump on a quiet rule would be most of
          // the hour that it is compared with, before the condition has held for long enough.
          alert(
            'StintRuleRejectionJump',
            'warning',
            'Rule {{ $labels.rule }} of {{ $labels.job }} denies far more than in the hour before.',
            'The rule denied {{ $value | humanizePercentage }} of its requests in the last five minutes.',
            |||
              job_rule:stint_decisions:denied_share5m > %(deniedJumpShare)g
              and
              job_rule:stint_decisions:denied_share5m > %(deniedJumpFactor)g * job_rule:stint_decisions:denied_share1h offset 15m
              and
              job_rule:stint_decisions:rate5m > %(deniedJumpRequestsPerSecond)g
            |||,
          ),
          alert(
            'StintHotKey',
            'warning',
            'A single key has very many requests on {{ $labels.instance }}.',
            '{{ $value }} keys have at least --hot-key-rate requests per second. The log names the rule and the first characters of the key.',
            |||
              stint_hot_keys{%(sel)s} > 0
            |||,
          ),
          alert(
            'StintUnmatchedRequests',
            'warning',
            'No rule matches many requests on surface {{ $labels.surface }} of {{ $labels.job }}.',
            '{{ $value | humanizePercentage }} of the requests on this surface match no rule, so nothing limits them.',
            |||
              sum by (job, surface) (rate(stint_unmatched_total{%(sel)s}[5m]))
              / sum by (job, surface) (rate(stint_requests_total{%(sel)s}[5m]))
              > %(unmatchedShare)g
            |||,
          ),
          burn('critical', 14.4, '1h', '5m'),
          burn('warning', 6, '6h', '30m'),
        ],
      },
      {
        name: 'stint-rules',
        rules: [
          alert(
            'StintRulesSourceDown',
            'warning',
            'The source of the rules does not answer {{ $labels.instance }}.',
            'Three polls in a row have failed. The rules in force stay, and changes do not reach this node.',
            |||
              stint_rules_source_up{%(sel)s} == 0
            |||,
          ),
          alert(
            'StintRulesVersionsDiffer',
            'warning',
            'Nodes of {{ $labels.job }} run different versions of the rules.',
            '{{ $value }} versions are in force at once.',
            |||
              count by (job) (count_values by (job) ("hash", stint_rules_hash{%(sel)s})) > 1
            |||,
          ),
          // The second part holds while a mistake of the rules lasts, and the third one while a
          // mistake in the files of --envoy-config lasts.
          alert(
            'StintReloadFailed',
            'warning',
            '{{ $labels.instance }} rejected a change of the rules.',
            'Rules that changed in the last ten minutes could not be loaded, or the newest ones still cannot be. The last good version stays in force.',
            |||
              sum by (job, instance) (increase(stint_rules_reloads_total{%(sel)s, result="error"}[10m])) > 0
              or
              max by (job, instance) (
                time() - stint_rules_last_success_timestamp_seconds{%(sel)s} > 120
                and on (job, instance) stint_rules_source_up{%(sel)s} == 1
              )
              or
              max by (job, instance) (stint_envoy_config_mistakes{%(sel)s}) > 0
            |||,
          ),
          alert(
            'StintCanaryAborted',
            'warning',
            '{{ $labels.instance }} aborted a canary (reason: {{ $labels.reason }}).',
            'The new rules denied more than they may, or had errors. The old rules are in force for all callers.',
            |||
              sum by (job, instance, reason) (increase(stint_canary_ends_total{%(sel)s, result="aborted", reason!="operator"}[10m])) > 0
            |||,
          ),
        ],
      },
      {
        name: 'stint-node',
        rules: [
          alert(
            'StintMemoryNearlyFull',
            'warning',
            'The memory store of {{ $labels.instance }} is nearly full.',
            'It holds {{ $value | humanizePercentage }} of the keys that --max-keys allows.',
            |||
              stint_keys{%(sel)s} / stint_keys_max{%(sel)s} > %(memoryFullness)g
            |||,
          ),
          alert(
            'StintEvictions',
            'warning',
            'The memory store of {{ $labels.instance }} evicts keys.',
            '{{ $value | humanize }} keys per second are evicted before they expire, or not stored. Each of them has a fresh allowance.',
            |||
              rate(stint_evictions_total{%(sel)s}[5m]) + rate(stint_unstored_total{%(sel)s}[5m]) > 0
            |||,
          ),
          alert(
            'StintDecisionLogDropping',
            'warning',
            'The decision log of {{ $labels.job }} drops lines{{ with $labels.rule }} of rule {{ . }}{{ end }}.',
            '{{ $value | humanize }} lines per second are dropped, for the reason {{ $labels.reason }}.',
            |||
              sum by (job, rule, reason) (rate(stint_decision_log_dropped_total{%(sel)s}[5m])) > 0
            |||,
          ),
          alert(
            'StintCertificateExpires',
            'warning',
            'The certificate of listener {{ $labels.listener }} of {{ $labels.instance }} expires soon.',
            'It expires in {{ $value | humanizeDuration }}. A negative time means that it has expired.',
            |||
              stint_certificate_expiry_timestamp_seconds{%(sel)s} - time() < %(certificateDays)g * 86400
            |||,
          ),
          alert(
            'StintTargetAbsent',
            'critical',
            'Prometheus cannot scrape {{ with $labels.instance }}{{ . }}{{ else }}any Stint server{{ end }}.',
            'The server is down, its admin port cannot be reached, or no target is configured.',
            |||
              up{%(sel)s} == 0
              or
              absent(up{%(sel)s})
            |||,
          ),
        ],
      },
    ],
  },
}
