import { call, type Schemas } from '../api'
import { useLoad } from '../load'
import { Await, Badge, Page, Time } from '../parts/basic'
import { Table } from '../parts/table'
import { href } from '../router'

type Node = Schemas['Nodes']['nodes'][number]

export function Nodes() {
  const nodes = useLoad(async (signal) => (await call('get', '/nodes', { signal })).data.nodes, [], 5)
  const columns = [
    { title: 'Address', value: (n: Node) => n.address || n.id, show: (n: Node) => <><code>{n.address || '–'}</code> <span class="quiet">{n.id}</span></> },
    { title: 'Rules', value: (n: Node) => n.version, show: (n: Node) => <a href={href(['versions', String(n.version)])}>version {n.version}</a> },
    { title: 'Since', value: (n: Node) => n.since, show: (n: Node) => <Time at={n.since} /> },
    { title: 'Stint', value: (n: Node) => n.program ?? '' },
    { title: 'State', value: state, show: (n: Node) => <Badge kind={n.stale || n.emergency ? 'warn' : 'good'}>{state(n)}</Badge> },
  ]
  return (
    <Page title="Nodes and store" lead="The nodes that share these rules.">
      <Await of={nodes} what="The nodes were not loaded">
        {(list) => (
          <>
            {new Set(list.map((n) => n.hash)).size > 1 && <p class="box warn" role="status"><strong>The nodes run different rules.</strong> A new version reaches every node within two seconds. If they still differ then, look at the nodes with the older version.</p>}
            <Table name="nodes" caption="Nodes" rows={list} columns={columns} keyOf={(n) => n.id} empty="No node has announced itself. Only nodes that share their rules through a database announce themselves." />
          </>
        )}
      </Await>
    </Page>
  )
}

function state(n: Node): string {
  return [n.stale && 'runs its local copy of the rules', n.emergency && 'obeys an emergency', n.canary && `runs canary ${n.canary.version}`].filter(Boolean).join(', ') || 'in force'
}
