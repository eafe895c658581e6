import { call, type Schemas } from '../api'
import { count, many } from '../format'
import { useLoad } from '../load'
import { Await, Choice, Page, Time } from '../parts/basic'
import { RuleLink } from '../parts/rule'
import { Table } from '../parts/table'
import { amend, href, type Route } from '../router'

type Item = Schemas['Top']['items'][number]
type By = 'denied' | 'allowed' | 'shadow'
type Window = '1m' | '1h'

export function Top({ route }: { route: Route }) {
  const by = (route.query.get('by') ?? 'denied') as By
  const window = (route.query.get('window') ?? '1m') as Window
  const rule = route.query.get('rule') ?? ''
  return (
    <Page
      title="Top keys"
      lead={rule ? <>Keys of rule <RuleLink id={rule} />. <a href={href(['top'], { by, window })}>All rules</a></> : 'The keys that this node denied or allowed most often, of all rules.'}
      actions={
        <>
          <Choice label="Which requests" of={[['denied', 'Denied'], ['allowed', 'Allowed'], ['shadow', 'Shadow']]} value={by} choose={(v) => amend({ by: v })} />
          <Choice label="Window" of={[['1m', '1 minute'], ['1h', '1 hour']]} value={window} choose={(v) => amend({ window: v })} />
        </>
      }
    >
      <TopKeys by={by} window={window} rule={rule} />
    </Page>
  )
}

// TopKeys is the table of one selection. It is also a part of the page of a rule.
export function TopKeys({ by, window, rule, limit = 100 }: { by: By; window: Window; rule: string; limit?: number }) {
  const top = useLoad(async (signal) => (await call('get', '/v1/top', { query: { by, window, rule, limit }, signal })).data, [by, window, rule, limit], 5)
  const columns = [
    { title: 'Key', value: (i: Item) => i.key, show: (i: Item) => <KeyOf of={i} /> },
    { title: 'Hash', value: (i: Item) => i.hash ?? '', show: (i: Item) => <code class="hash">{i.hash}</code> },
    { title: 'Rule', value: (i: Item) => i.rule, show: (i: Item) => <RuleLink id={i.rule} /> },
    { title: 'Requests', value: (i: Item) => i.count, show: (i: Item) => count(i.count) },
    { title: '± error', value: (i: Item) => i.error, show: (i: Item) => (i.error ? `− ${count(i.error)}` : '0') },
  ]
  return (
    <Await of={top} what="The top keys were not loaded">
      {({ items, since, floor }) => (
        <>
          <Table name="top" keys steady caption="Keys with the most requests" rows={items} columns={columns} keyOf={(i) => `${i.rule} ${i.id ?? ''} ${i.key}`}
            empty={`No request was ${by === 'shadow' ? 'denied in shadow mode' : by} in this window. Choose another window or other requests.`} />
          <p class="quiet">Since <Time at={since} />. A key has at most its number of requests, and at least that number less the error. A key that is not listed has at most {many(floor, 'request')}.</p>
        </>
      )}
    </Await>
  )
}

// KeyOf links a key by its hash: the address never has a part of a key.
function KeyOf({ of }: { of: Item }) {
  return of.hash ? <a href={href(['key'], { hash: of.hash })}><code>{of.key}</code></a> : <code>{of.key}</code>
}
