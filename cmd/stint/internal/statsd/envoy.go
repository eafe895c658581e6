package statsd

// envoyHits is the family with the counts of limits in Envoy's files.
const envoyHits = "stint_envoy_hits_total"

// envoyName returns the name that Envoy's own service gives to a counter of a limit in its
// files, such as ratelimit.service.rate_limit.domain.key_value.over_limit. The name of the
// limit comes from the files: a descriptor without a value there is its key alone.
func envoyName(family string, labels []label) (string, bool) {
	if family != envoyHits {
		return "", false
	}
	var limit, kind string
	for _, l := range labels {
		switch l.name {
		case "rule":
			limit = l.value
		case "kind":
			kind = l.value
		}
	}
	return "ratelimit.service.rate_limit." + clean(limit) + "." + kind, limit != ""
}
