// What the dashboards of servers have in common: the variables, the selector of the
// chosen nodes, and marks where the rules or the program changed.
local g = import 'grafana.libsonnet';
function(c) {
  local sel = '%s, job=~"$job", instance=~"$instance"' % c.stintSelector,

  // of puts the selector and the window into a query, as %(sel)s and %(w)s.
  of(query):: std.stripChars(query % { sel: sel, w: c.window }, '\n'),

  variables: [
    g.many('job', 'Job', 'label_values(up{%s}, job)' % c.stintSelector),
    g.many('instance', 'Node', 'label_values(up{%s, job=~"$job"}, instance)' % c.stintSelector),
  ],

  annotations: [
    ['Rules', 'max by (job) (changes(stint_rules_version{%s}[1m])) > 0' % sel, 'new rules in force', 'blue'],
    ['Program', 'count by (job, version) (stint_build_info{%s}) and on (job) sum by (job) (changes(process_start_time_seconds{%s}[1m])) > 0' % [sel, sel], 'started: {{version}}', 'purple'],
  ],

  dashboard(name, description, panels, variables=[]):: g.dashboard(name, description, c.dashboardTags, $.variables + variables, $.annotations, panels),
}
