import { call, type Schemas } from '../api'
import { count, duration, localTime, many, share, utcTime } from '../format'
import { useLoad } from '../load'
import { Await, Badge, Page, Panel, Time } from '../parts/basic'
import { Table } from '../parts/table'
import { href } from '../router'

type Node = Schemas['Node']
type Status = Schemas['NodeStatus']

export function Nodes() {
  const nodes = useLoad(readNodes, [], 5)
  return (
    <Page title="Nodes and store" lead="The nodes that share these rules, as each announced itself in the last seconds.">
      <Await of={nodes} what="The nodes were not loaded">
        {({ list, failed }) => (
          <>
            {failed && <p class="box warn" role="alert"><strong>The other nodes are not known:</strong> {failed}. This node is shown alone.</p>}
            {new Set(list.map((n) => n.hash)).size > 1 && <p class="box warn" role="status"><strong>The nodes run different rules.</strong> A new version reaches every node within two seconds. If they still differ then, look at the nodes with the older version.</p>}
            <NodesTable nodes={list} />
            <Panel title="Servers of the store" note="as each node sees them"><Shards nodes={list} /></Panel>
          </>
        )}
      </Await>
    </Page>
  )
}

// readNodes returns this node alone if the source of the rules, which knows the others, fails.
async function readNodes(signal: AbortSignal): Promise<{ list: Node[]; failed: string }> {
  try {
    return { list: (await call('get', '/nodes', { signal })).data.nodes, failed: '' }
  } catch (error) {
    const { data } = await call('get', '/nodes', { query: { self: true }, signal })
    return { list: data.nodes, failed: (error as Error).message }
  }
}

function NodesTable({ nodes }: { nodes: Node[] }) {
  const columns = [
    { title: 'Address', value: nameOf, show: (n: Node) => <code title={`id ${n.id}`}>{nameOf(n)}</code> },
    { title: 'Rules', value: (n: Node) => n.version, show: (n: Node) => <a href={href(['versions', String(n.version)])}>version {n.version}</a> },
    { title: 'State', value: stateOf, show: (n: Node) => <Badge kind={stateOf(n) === 'in force' ? 'good' : n.status?.store_up === false ? 'bad' : 'warn'}>{stateOf(n)}</Badge> },
    { title: 'Stint', value: (n: Node) => n.program ?? '' },
    { title: 'Up', unit: 's', value: (n: Node) => uptime(n) / 1000, show: (n: Node) => (n.status ? <span title={`since ${localTime(new Date(n.status.started))}, ${utcTime(new Date(n.status.started))}`}>{duration(uptime(n))}</span> : '–') },
    { title: 'Memory', unit: 'keys', value: (n: Node) => n.status?.memory?.keys ?? 0, show: (n: Node) => memoryOf(n.status) },
    { title: 'Leases', unit: 'tokens', value: (n: Node) => n.status?.leases?.tokens ?? 0, show: (n: Node) => leasesOf(n.status) },
    { title: 'Last error of the store', value: (n: Node) => (n.status?.last_error ? `${n.status.last_error.kind} ${n.status.last_error.time}` : ''), show: (n: Node) => (n.status?.last_error ? <>{n.status.last_error.kind} <Time at={n.status.last_error.time} relative /></> : '–') },
  ]
  return <Table name="nodes" caption="Nodes" rows={nodes} columns={columns} keyOf={(n) => n.id} empty="No node has announced itself. Only nodes that share their rules through a database announce themselves: give each one the same --rules." />
}

function nameOf(n: Node): string {
  return n.address || n.id
}

// uptime is in whole seconds, in milliseconds.
function uptime(n: Node): number {
  return n.status ? Math.max(0, Math.floor((Date.now() - Date.parse(n.status.started)) / 1000) * 1000) : 0
}

function stateOf(n: Node): string {
  return [n.status?.store_up === false && 'store unavailable', n.stale && 'runs its local copy of the rules', n.emergency && 'obeys an emergency', n.canary && `runs canary ${n.canary.version}`].filter(Boolean).join(', ') || 'in force'
}

function memoryOf(s: Status | undefined): string {
  if (!s?.memory) return '–'
  const { keys, max_keys, evictions } = s.memory
  return `${share(keys / (max_keys || 1))}: ${count(keys)} of ${many(max_keys, 'key')}${evictions ? `, ${many(evictions, 'eviction')}` : ''}`
}

function leasesOf(s: Status | undefined): string {
  return s?.leases ? `${many(s.leases.tokens, 'token')} of ${many(s.leases.keys, 'key')}` : '–'
}

interface Shard {
  node: string
  shard: string
  skew: number | undefined
  breaker: NonNullable<Status['breakers']>[number] | undefined
}

function Shards({ nodes }: { nodes: Node[] }) {
  const columns = [
    { title: 'Node', value: (s: Shard) => s.node, show: (s: Shard) => <code>{s.node}</code> },
    { title: 'Server', value: (s: Shard) => s.shard || 'the store' },
    { title: 'Clock ahead', unit: 'ms', value: (s: Shard) => s.skew ?? 0, show: (s: Shard) => (s.skew === undefined ? '–' : <span class={Math.abs(s.skew) >= 500 ? 'bad-text' : ''}>{(Math.round(s.skew * 10) / 10 + 0).toFixed(1)} ms</span>) },
    { title: 'Circuit', value: (s: Shard) => (s.breaker?.open ? 'open' : 'closed'), show: (s: Shard) => <Badge kind={s.breaker?.open ? 'bad' : 'good'}>{s.breaker?.open ? 'open' : 'closed'}</Badge> },
    { title: 'Opened', value: (s: Shard) => s.breaker?.opens ?? 0, show: (s: Shard) => many(s.breaker?.opens ?? 0, 'time') },
    { title: 'Refused', value: (s: Shard) => s.breaker?.refused ?? 0, show: (s: Shard) => many(s.breaker?.refused ?? 0, 'call') },
  ]
  const rows = nodes.flatMap(shardsOf)
  const hidden = nodes.reduce((sum, n) => sum + (n.status?.more_shards ?? 0), 0)
  return (
    <>
      <Table name="shards" caption="Clocks and circuits" rows={rows} columns={columns} keyOf={(s) => `${s.node} ${s.shard}`} empty="No node reports servers of a store: the store is the memory of each node." />
      {hidden > 0 && <p class="quiet">{count(hidden)} servers are left out.</p>}
    </>
  )
}

function shardsOf(n: Node): Shard[] {
  const names = new Set([...(n.status?.clocks ?? []), ...(n.status?.breakers ?? [])].map((s) => s.shard))
  return [...names].sort().map((shard) => ({
    node: nameOf(n),
    shard,
    skew: n.status?.clocks?.find((c) => c.shard === shard)?.skew_ms,
    breaker: n.status?.breakers?.find((b) => b.shard === shard),
  }))
}
