-- Prints the figures of a run in a line of its own: requests, microseconds, p50 and p99
-- in microseconds, and failures.
function done(summary, latency)
  local e = summary.errors
  print(string.format("measured %d %d %d %d %d", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.timeout + e.status))
end
