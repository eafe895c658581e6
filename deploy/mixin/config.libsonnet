// What differs between installations. Override a field where you import the mixin:
//
//   (import 'mixin.libsonnet') + { _config+:: { stintSelector: 'job="limits"' } }
{
  _config+:: {
    // The targets that are Stint servers.
    stintSelector: 'job="stint"',
    // The targets that are programs with Stint's client library (contrib/stintprom).
    clientSelector: 'job!=""',

    // The page of an alert is this address, the alert's name, and ".md".
    runbookPrefix: 'https://github.com/stintdev/stint/blob/main/docs/runbooks/',

    // The share of requests that must be decided by the store or by a list, not by a
    // failure policy and not by an error.
    availabilityObjective: 0.999,

    // Where an alert compares with a number.
    storeP99Seconds: 0.005,
    clockSkewSeconds: 0.5,
    deniedShare: 0.05,
    // A rule's denied share has jumped if it is this many times the share of the hour
    // before, and at least the next number. Rules with less traffic than the third number
    // are left out.
    deniedJumpFactor: 3,
    deniedJumpShare: 0.05,
    deniedJumpRequestsPerSecond: 1,
    unmatchedShare: 0.01,
    memoryFullness: 0.9,
    certificateDays: 14,

    // How long an alert's condition must hold, by the alert's name.
    holds: {
      StintStoreDown: '30s',
      StintFailOpen: '1m',
      StintBreakerOpen: '1m',
      StintStoreSlow: '5m',
      StintClockSkew: '2m',
      StintStoreEvictions: '5m',
      StintQuorumServer: '2m',
      StintRejectionRate: '5m',
      StintRuleRejectionJump: '5m',
      StintHotKey: '1m',
      StintUnmatchedRequests: '10m',
      StintRulesSourceDown: '1m',
      StintRulesVersionsDiffer: '30s',
      StintReloadFailed: '0s',
      StintCanaryAborted: '0s',
      StintMemoryNearlyFull: '5m',
      StintEvictions: '5m',
      StintDecisionLogDropping: '5m',
      StintCertificateExpires: '1h',
      StintAvailabilityBurn: '2m',
      StintTargetAbsent: '1m',
    },

    // The interval of the windows in dashboards. Grafana fills it in.
    window: '$__rate_interval',
    dashboardTags: ['stint'],
  },
}
