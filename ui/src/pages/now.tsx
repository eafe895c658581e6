// What the server does now: a chart of the last 15 minutes, the rates of the rules, and a
// banner while decisions are made without the store.
import { useMemo } from 'preact/hooks'
import type { Schemas } from '../api'
import { count, duration, many, rate, share } from '../format'
import { deniedShare, others, rates, requestsOf, useLive, type Counts, type Live, type Node, type Point, type Rate, type Second } from '../live'
import { Badge, Choice, Empty, Loading, Page, Panel, Tile, Time } from '../parts/basic'
import { CanaryBanner } from '../parts/canary'
import { Chart } from '../parts/chart'
import { RuleLink } from '../parts/rule'
import { SecondsChart, counted } from '../parts/seconds'
import { Table } from '../parts/table'
import { amend, href, type Route } from '../router'
import { identity } from '../session'
import { useStore } from '../store'

type Degradation = Schemas['LiveDegradation']
type Scope = 'node' | 'all'

// The tiles show means of the last seconds.
const recent = 10

export function Now({ route }: { route: Route }) {
  const live = useLive()
  const who = useStore(identity)
  const scope = (route.query.get('nodes') === 'all' ? 'all' : 'node') as Scope
  return (
    <Page title="Now" lead={scope === 'node' ? 'This node, in the last 15 minutes.' : 'The nodes that share these rules, as each announced itself last.'}
      actions={<Choice label="Nodes" of={[['node', 'This node'], ['all', 'All nodes']]} value={scope} choose={(v) => amend({ nodes: v === 'all' ? v : undefined })} />}>
      {live.status === 'lost' && (
        <p class="box warn" role="status"><strong>The live view is interrupted:</strong> {live.why}. It is tried again; what is shown is not current.</p>
      )}
      {who?.features.includes('canary') && <CanaryBanner />}
      <Versions nodes={live.nodes} />
      <Degraded live={live} scope={scope} />
      {scope === 'node' ? <ThisNode live={live} rule={route.query.get('rule') ?? ''} /> : <AllNodes live={live} />}
    </Page>
  )
}

function Versions({ nodes }: { nodes: Node[] }) {
  const versions = [...new Set(nodes.map((n) => n.version))].sort((a, b) => b - a)
  if (new Set(nodes.map((n) => n.hash)).size < 2) return null
  return <p class="box warn" role="status"><strong>The nodes run different rules:</strong> versions {versions.join(', ')}. <a href={href(['nodes'])}>Look at the nodes</a></p>
}

function ThisNode({ live, rule }: { live: Live; rule: string }) {
  const last = live.seconds.at(-1)
  if (!last) return live.status === 'live' ? <Empty>The node has counted nothing yet. Its first second appears here when it is over.</Empty> : <Loading />
  return (
    <>
      <Tiles seconds={live.seconds.slice(-recent)} />
      <Graph seconds={live.seconds} rule={rule} />
      <Rules seconds={live.seconds} />
    </>
  )
}

// Degraded has a banner for this node, or for each node of all, that decides without the store.
function Degraded({ live, scope }: { live: Live; scope: Scope }) {
  const here = live.seconds.at(-1)?.degradation
  const nodes = live.nodes.flatMap((n) => (n.traffic?.degradation ? [{ name: n.address || n.id, of: n.traffic.degradation }] : []))
  if (scope === 'all') {
    return (
      <>
        {nodes.slice(0, mostBanners).map((n) => <Banner key={n.name} of={n.of} node={n.name} />)}
        {nodes.length > mostBanners && <p class="box bad">And {many(nodes.length - mostBanners, 'other node')}: the table has the rates of each.</p>}
      </>
    )
  }
  const elsewhere = live.nodes.length > 1 ? nodes.length - (here ? 1 : 0) : 0
  return (
    <>
      {here && <Banner of={here} />}
      {elsewhere > 0 && <p class="box bad" role="status"><strong>{many(elsewhere, here ? 'other node' : 'node')} of {count(live.nodes.length)} decide{elsewhere === 1 ? 's' : ''} requests without the store.</strong> <button type="button" class="link" onClick={() => amend({ nodes: 'all' })}>Look at all nodes</button></p>}
    </>
  )
}

// mostBanners bounds the nodes that have a banner of their own.
const mostBanners = 8

function Banner({ of, node = '' }: { of: Degradation; node?: string }) {
  return (
    <div class="box bad">
      {/* The numbers change each second: a screen reader must not read them out again. */}
      <p><strong role="alert">{node ? <><code>{node}</code> is degraded</> : 'Degraded'} since <Time at={of.since} />:</strong> {share(of.share)} of the requests of the last 10 seconds were decided without the store.</p>
      <ul>
        {of.shards.map((s) => (
          <li key={s.shard}>{s.shard ? <code>{s.shard}</code> : 'the store'} since <Time at={s.since} />{s.open && <> <Badge kind="bad">circuit open</Badge></>}{policies(s.policies)}</li>
        ))}
        {of.more && <li>and {many(of.more, 'other server')}</li>}
      </ul>
    </div>
  )
}

function policies(of: Degradation['shards'][number]['policies']): string {
  const words = { open: 'allowed (open)', closed: 'denied (closed)', local: 'decided locally', last_known: 'decided by the last known state' }
  const parts = (Object.keys(words) as (keyof typeof words)[]).filter((name) => of[name]).map((name) => `${many(of[name]!, 'claim')} ${words[name]}`)
  return parts.length > 0 ? `: ${parts.join(', ')} in 10 seconds` : ''
}

function Tiles({ seconds }: { seconds: Second[] }) {
  const sum = (of: (s: Second) => number) => seconds.reduce((total, s) => total + of(s), 0)
  const length = sum((s) => s.length_ms) / 1000 || 1
  const requests = sum((s) => s.allowed + s.denied)
  const slowest = (of: (s: Second) => number | undefined) => Math.max(0, ...seconds.map((s) => of(s) ?? 0))
  const errors = sum((s) => s.errors)
  return (
    <div class="tiles">
      <Tile label="requests" value={rate(requests / length)} />
      <Tile label="denied" value={share(sum((s) => s.denied) / (requests || 1))} note={rate(sum((s) => s.denied) / length)} />
      <Tile label="degraded" value={share(sum((s) => s.degraded) / (requests || 1))} kind={sum((s) => s.degraded) ? 'bad' : ''} />
      <Tile label="unmatched" value={share(sum((s) => s.unmatched) / (requests || 1))} note="no rule" />
      <Tile label="errors" value={rate(errors / length)} kind={errors ? 'bad' : ''} />
      <Tile label="p99 of checks" value={latency(slowest((s) => s.check_p99_us))} />
      <Tile label="p99 of the store" value={latency(slowest((s) => s.store_p99_us))} />
    </div>
  )
}

function latency(us: number): string {
  if (us === 0) return '–'
  return us < 1000 ? `${Math.round(us)} µs` : us < 10_000 ? `${(us / 1000).toFixed(1)} ms` : duration(us / 1000)
}

function Graph({ seconds, rule }: { seconds: Second[]; rule: string }) {
  return (
    <Panel title={rule ? `Rule ${rule}` : 'All rules'} actions={rule && <button type="button" onClick={() => amend({ rule: undefined })}>All rules</button>}>
      <SecondsChart seconds={seconds} rule={rule} />
    </Panel>
  )
}

// pause is the time, in milliseconds, after which a missing point is a gap in the chart.
const pause = 15_000

function PointsChart({ points }: { points: Point[] }) {
  const { times, series } = useMemo(() => {
    const all: (Point | { time_ms: number })[] = []
    for (const point of points) {
      const last = all.at(-1)
      if (last && point.time_ms - last.time_ms > pause) all.push({ time_ms: last.time_ms + 1 })
      all.push(point)
    }
    const of = (name: keyof Rate) => all.map((p) => ('nodes' in p ? p[name] : null))
    return {
      times: all.map((p) => p.time_ms / 1000),
      series: counted.map((name) => ({ title: name, colour: `series-${name}`, values: of(name) })),
    }
  }, [points])
  return <Chart label="Requests a second of all nodes" unit="a second" times={times} series={series} span={900} />
}

interface Row extends Rate {
  rule: string
}

function Rules({ seconds }: { seconds: Second[] }) {
  return <RulesPanel rates={rates(seconds, 60)} note="means of the last minute" chart />
}

function RulesPanel({ rates: of, note, chart = false }: { rates: Map<string, Rate>; note: string; chart?: boolean }) {
  const rows: Row[] = [...of].map(([rule, r]) => ({ rule, ...r })).sort((a, b) => requestsOf(b) - requestsOf(a))
  const number = (title: string, name: keyof Rate) => ({ title, unit: 'a second', value: (r: Row) => r[name], show: (r: Row) => (r[name] ? rate(r[name]) : <span class="quiet">0</span>) })
  const columns = [
    { title: 'Rule', value: (r: Row) => r.rule, show: (r: Row) => (r.rule === others ? <span class="quiet">all others</span> : <RuleLink id={r.rule} />) },
    number('Allowed', 'allowed'),
    number('Denied', 'denied'),
    { title: 'Denied share', unit: '%', value: (r: Row) => 100 * deniedShare(r), show: (r: Row) => share(deniedShare(r)) },
    number('Shadow', 'shadow'),
    number('Degraded', 'degraded'),
    ...(chart ? [{ title: '', value: () => '', show: (r: Row) => <button type="button" class="quiet" aria-label={`Chart of ${r.rule}`} onClick={() => amend({ rule: r.rule })}>Chart</button> }] : []),
  ]
  return (
    <Panel title="Rules" note={note}>
      <Table name="live" caption="Rates of the rules" rows={rows} columns={columns} keyOf={(r) => r.rule} steady empty={<>No rule has had a request in the last minute. If there are requests, <a href={href(['key'])}>look up</a> which rules match one.</>} />
    </Panel>
  )
}

function AllNodes({ live }: { live: Live }) {
  if (live.nodesError) return <p class="box bad" role="alert"><strong>The nodes are not known:</strong> {live.nodesError}.</p>
  if (live.status === 'opening') return <Loading />
  const traffic = live.nodes.flatMap((n) => (n.traffic ? [n.traffic] : []))
  const total = (of: (t: Second) => number) => traffic.reduce((sum, t) => sum + (1000 * of(t)) / t.length_ms, 0)
  const requests = total((t) => t.allowed + t.denied)
  const slowest = (of: (t: Second) => number | undefined) => Math.max(0, ...traffic.map((t) => of(t) ?? 0))
  const number = (title: string, name: keyof Rate) => ({ title, unit: 'a second', value: (n: Node) => perSecond(n, name), show: (n: Node) => (n.traffic ? rate(perSecond(n, name)) : '–') })
  const columns = [
    { title: 'Node', value: (n: Node) => n.address || n.id, show: (n: Node) => <code>{n.address || n.id}</code> },
    { title: 'Rules', value: (n: Node) => n.version, show: (n: Node) => `version ${n.version}` },
    number('Allowed', 'allowed'), number('Denied', 'denied'), number('Shadow', 'shadow'), number('Degraded', 'degraded'),
    { title: 'p99 of checks', unit: 'µs', value: (n: Node) => n.traffic?.check_p99_us ?? 0, show: (n: Node) => latency(n.traffic?.check_p99_us ?? 0) },
  ]
  return (
    <>
      <div class="tiles">
        <Tile label="requests" value={rate(requests)} note={`of ${many(traffic.length, 'node')}`} />
        <Tile label="denied" value={share(total((t) => t.denied) / (requests || 1))} note={rate(total((t) => t.denied))} />
        <Tile label="degraded" value={share(total((t) => t.degraded) / (requests || 1))} kind={total((t) => t.degraded) ? 'bad' : ''} />
        <Tile label="unmatched" value={share(total((t) => t.unmatched) / (requests || 1))} note="no rule" />
        <Tile label="errors" value={rate(total((t) => t.errors))} kind={total((t) => t.errors) ? 'bad' : ''} />
        <Tile label="p99 of checks" value={latency(slowest((t) => t.check_p99_us))} note="of the slowest node" />
        <Tile label="p99 of the store" value={latency(slowest((t) => t.store_p99_us))} note="of the slowest node" />
      </div>
      <Panel title="All nodes together" note="every 5 seconds, the sum of what each node announced last">
        <PointsChart points={live.points} />
        <p class="quiet">This server asks for the other nodes while somebody looks at this page, so the chart has those times alone.</p>
      </Panel>
      <RulesPanel rates={ratesOfNodes(live.nodes)} note="of the 16 busiest rules of each node, in its last 5 seconds" />
      <Table name="nodes" caption="Rates of the nodes" rows={live.nodes} columns={columns} keyOf={(n) => n.id} empty="No node has announced itself. Only nodes that share their rules through a database announce themselves: give each one the same --rules." />
    </>
  )
}

// ratesOfNodes returns the sums of the rates that the nodes announced.
function ratesOfNodes(nodes: Node[]): Map<string, Rate> {
  const sums = new Map<string, Rate>()
  const add = (rule: string, counts: Counts, length: number) => {
    const sum = sums.get(rule) ?? { allowed: 0, denied: 0, shadow: 0, degraded: 0 }
    for (const name of counted) sum[name] += (1000 * (counts[name] ?? 0)) / length
    sums.set(rule, sum)
  }
  for (const { traffic } of nodes) {
    if (!traffic) continue
    for (const r of traffic.rules) add(r.rule, r, traffic.length_ms)
    if (traffic.others) add(others, traffic.others, traffic.length_ms)
  }
  return sums
}

function perSecond(n: Node, name: keyof Rate): number {
  return n.traffic ? (1000 * n.traffic[name]) / n.traffic.length_ms : 0
}
