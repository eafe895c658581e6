import { call, callText, type Schemas } from '../api'
import { useLoad } from '../load'
import { Await, Badge, Field, Long, Page, Save, Time } from '../parts/basic'
import { Table } from '../parts/table'
import { amend, href, type Route } from '../router'

type Entry = Schemas['Audit']['entries'][number]

const filters = ['who', 'what', 'result', 'since', 'until'] as const
type Filter = Partial<Record<(typeof filters)[number] | 'key_hash', string>>

export function Audit({ route }: { route: Route }) {
  const filter: Filter = Object.fromEntries([...filters, 'key_hash' as const].map((name) => [name, route.query.get(name) ?? '']))
  return (
    <Page title="Audit" lead="The newest 1,000 changes of rules and keys on this node since its start, done or refused. The log of the node has all of them, marked log=audit." actions={<Export filter={filter} />}>
      <form class="row" onSubmit={(e) => e.preventDefault()}>
        <Select label="Who" name="who" filter={filter} hint="The name of a token." />
        <Select label="What or why" name="what" filter={filter} hint="A part of the text." />
        <Select label="Result" name="result" filter={filter} hint="Such as done, or the code of an error." />
        <Select label="Since" name="since" filter={filter} hint="Such as 24h, or a time." />
        <Select label="Until" name="until" filter={filter} hint="Such as 1h, or a time." />
      </form>
      {filter.key_hash && <p>Changes of the key with the hash <code>{filter.key_hash}</code> alone. <button type="button" class="link" onClick={() => amend({ key_hash: undefined })}>Show all keys</button></p>}
      <Entries filter={filter} />
    </Page>
  )
}

function Select({ label, name, filter, hint }: { label: string; name: (typeof filters)[number]; filter: Filter; hint: string }) {
  return <Field label={label} hint={hint}><input name={name} value={filter[name]} autocomplete="off" onChange={(e) => amend({ [name]: e.currentTarget.value })} /></Field>
}

// Entries is the table of a selection. It is also the history of a key.
export function Entries({ filter, empty }: { filter: Filter; empty?: string }) {
  const entries = useLoad(async (signal) => (await call('get', '/audit', { query: { ...filter, n: 1000 }, signal })).data.entries, [JSON.stringify(filter)], 10)
  const columns = [
    { title: 'Time', value: (e: Entry) => e.time, show: (e: Entry) => <Time at={e.time} /> },
    { title: 'Who', value: (e: Entry) => `${e.who} (${e.role})` },
    { title: 'What', wide: true, value: (e: Entry) => e.what },
    { title: 'Result', value: (e: Entry) => e.result + (e.forced ? ', forced' : ''), show: (e: Entry) => <Result of={e} /> },
    { title: 'Reason', wide: true, value: (e: Entry) => e.why ?? '', show: (e: Entry) => <Long text={e.why ?? ''} /> },
    { title: 'From', value: (e: Entry) => e.from },
  ]
  const selected = Object.values(filter).some(Boolean)
  return (
    <Await of={entries} what="The audit log was not loaded">
      {(list) => <Table name="audit" caption="Changes" rows={list} columns={columns} keyOf={(e) => e.time + e.from + e.what}
        empty={empty ?? (selected ? 'Nobody has made such a change since this process started. Empty a field to see more; older changes are in the log of the node.' : 'Nobody has changed anything since this process started. Older changes are in the log of the node.')} />}
    </Await>
  )
}

function Result({ of }: { of: Entry }) {
  const kind = of.result === 'done' ? 'good' : of.result === 'dry run' || of.result === 'unchanged' ? 'plain' : 'bad'
  return (
    <>
      <Badge kind={kind}>{of.result}</Badge>{of.forced && <> <Badge kind="warn">forced</Badge></>}
      {of.version ? <> <a href={href(['versions', String(of.version)])}>version {of.version}</a></> : null}
    </>
  )
}

// Export saves the selection as a file.
function Export({ filter }: { filter: Filter }) {
  const read = (accept: string) => async () => (await callText('get', '/audit', { query: { ...filter, n: 1000 }, accept })).data
  return (
    <>
      <Save label="Export CSV" name="stint-audit.csv" type="text/csv" text={read('text/csv')} />
      <Save label="Export JSON" name="stint-audit.json" type="application/json" text={read('application/json')} />
    </>
  )
}
