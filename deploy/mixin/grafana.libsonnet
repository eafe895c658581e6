// The few parts of Grafana's dashboard format that the dashboards use.
local width = 24;

// place gives panels their places: left to right, and a new line where a row begins or
// the line is full.
local place(panels) = std.foldl(
  function(done, panel)
    local w = panel.gridPos.w;
    local h = panel.gridPos.h;
    local fits = done.x + w <= width;
    local x = if fits then done.x else 0;
    local y = if fits then done.y else done.y + done.h;
    {
      x: x + w,
      y: y,
      h: if fits then std.max(done.h, h) else h,
      panels: done.panels + [panel { id: std.length(done.panels) + 1, gridPos+: { x: x, y: y } }],
    },
  panels,
  { x: 0, y: 0, h: 0, panels: [] },
).panels;

local datasource = { type: 'prometheus', uid: '${datasource}' };

// target is a query of a panel. Grafana tells the answers of a panel's queries apart by their
// refId: A, B and so on.
local target(expr, legend, index=0) = {
  refId: std.char(std.codepoint('A') + index),
  datasource: datasource,
  expr: expr,
  legendFormat: legend,
  editorMode: 'code',
  range: true,
};

local panel(type, title, description, unit, w, h) = {
  type: type,
  title: title,
  description: description,
  datasource: datasource,
  gridPos: { w: w, h: h },
  fieldConfig: { defaults: { unit: unit }, overrides: [] },
};

local variable(name, label, query, multi) = {
  name: name,
  label: label,
  type: 'query',
  datasource: datasource,
  query: { query: query, refId: name },
  definition: query,
  refresh: 2,
  sort: 1,
  includeAll: multi,
  multi: multi,
  current: {},
} + if multi then { allValue: '.*' } else {};

{
  // row is a heading over the panels that follow.
  row(title):: { type: 'row', title: title, collapsed: false, panels: [], gridPos: { w: width, h: 1 } },

  // series is a panel of lines over time. Each query is an expression and the name of
  // its lines.
  series(title, description, unit, queries, w=8):: panel('timeseries', title, description, unit, w, 8) {
    fieldConfig+: { defaults+: { min: 0, custom: { lineWidth: 1, fillOpacity: 10, showPoints: 'never' } } },
    options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } },
    targets: std.mapWithIndex(function(i, q) target(q[0], q[1], i), queries),
  },

  // signed lets a panel of lines show values below zero.
  signed:: { fieldConfig+: { defaults+: { min: null } } },

  // number is a panel with the latest value. A value from bad on is red.
  number(title, description, unit, expr, bad=null, w=4):: panel('stat', title, description, unit, w, 4) {
    fieldConfig+: { defaults+: {
      thresholds: { mode: 'absolute', steps: [{ color: 'green', value: null }] + (if bad == null then [] else [{ color: 'red', value: bad }]) },
    } },
    options: { colorMode: 'value', graphMode: 'area', reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false } },
    targets: [target(expr, '')],
  },

  // table is a panel with the labels and the latest value of each series.
  table(title, description, expr, w=24):: panel('table', title, description, 'short', w, 8) {
    targets: [target(expr, '') { format: 'table', instant: true, range: false }],
    transformations: [{ id: 'organize', options: { excludeByName: { Time: true, __name__: true } } }],
  },

  // variable offers the values of a label; one at a time, or with many also several or all.
  variable(name, label, query):: variable(name, label, query, false),
  many(name, label, query):: variable(name, label, query, true),

  dashboard(name, description, tags, variables, annotations, panels):: {
    uid: 'stint-' + std.asciiLower(name),
    title: 'Stint / ' + name,
    description: description,
    tags: tags,
    editable: false,
    graphTooltip: 1,
    refresh: '10s',
    schemaVersion: 39,
    time: { from: 'now-1h', to: 'now' },
    timezone: 'browser',
    links: [{ type: 'dashboards', title: 'Stint', tags: tags, asDropdown: true, includeVars: true, keepTime: true }],
    templating: { list: [{ name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', current: {} }] + variables },
    annotations: { list: [
      { name: a[0], datasource: datasource, enable: true, expr: a[1], titleFormat: a[2], step: '10s', iconColor: a[3] }
      for a in annotations
    ] },
    panels: place(panels),
  },
}
