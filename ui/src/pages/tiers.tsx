import { useState } from 'preact/hooks'
import { call, callText, type Schemas } from '../api'
import { count } from '../format'
import { useLoad } from '../load'
import { Await, Field, Page } from '../parts/basic'
import { Change } from '../parts/change'
import { For } from '../parts/role'
import { Table } from '../parts/table'
import { go, href, type Route } from '../router'
import { identity, may } from '../session'
import { useStore } from '../store'
import { Edit, tierTarget } from './edit'

type Tier = Schemas['Tiers']['tiers'][number]

export function TiersPages({ route }: { route: Route }) {
  const [name, action] = route.path.slice(1)
  if (name === undefined) return <Tiers />
  if (action === 'delete') return <For role="operator" title={`Delete tier ${name}`} back={['tiers']}><DeleteTier name={name} /></For>
  const fresh = action === 'new'
  return <For role="operator" title={`${fresh ? 'New' : 'Edit'} tier ${name}`} back={['tiers']}><Edit key={name} target={tierTarget(name, fresh)} /></For>
}

function Tiers() {
  const writes = may('operator', useStore(identity))
  const tiers = useLoad(async (signal) => (await call('get', '/v1/tiers', { signal })).data.tiers, [], 10)
  const columns = [
    { title: 'Tier', value: (t: Tier) => t.name },
    { title: 'Text', value: (t: Tier) => t.text ?? '', show: (t: Tier) => <code>{t.text}</code> },
    { title: 'Grants', value: (t: Tier) => t.limits.map((l) => `${l.rule}: ${l.words}`).join('; '), show: (t: Tier) => <Grants of={t} /> },
    { title: 'Rules', value: (t: Tier) => t.rules, show: (t: Tier) => count(t.rules) },
    ...(writes ? [{ title: '', value: () => '', show: (t: Tier) => <div class="actions"><a class="button" href={href(['tiers', t.name, 'edit'])} aria-label={`Edit tier ${t.name}`}>Edit…</a> <a class="button" href={href(['tiers', t.name, 'delete'])} aria-label={`Delete tier ${t.name}`}>Delete…</a></div> }] : []),
  ]
  return (
    <Page title="Tiers" lead={<>Classes of callers, to whom rules grant limits of their own. <a href={href(['rules'])}>All rules</a></>}>
      <Await of={tiers} what="The tiers were not loaded">
        {(list) => <Table name="tiers" caption="Tiers" rows={list} columns={columns} keyOf={(t) => t.name} empty={writes ? 'The rules declare no tier. Add one below.' : 'The rules declare no tier. An operator can add one.'} />}
      </Await>
      {writes && <NewTier />}
    </Page>
  )
}

function Grants({ of }: { of: Tier }) {
  return (
    <>
      {of.limits.map((l) => <div key={`${l.rule} ${l.words}`}><a href={href(['rules', l.rule])}>{l.rule}</a>: {l.words}</div>)}
      {of.rules === 0 && <span class="quiet">No rule has its limit from this tier.</span>}
      {of.rules > of.limits.length && <div class="quiet">and {count(of.rules - of.limits.length)} more</div>}
    </>
  )
}

function NewTier() {
  const [name, setName] = useState('')
  return (
    <form class="row narrow" onSubmit={(e) => { e.preventDefault(); go(['tiers', name, 'new']) }}>
      <Field label="New tier" hint="Letters, digits, and . : _ - up to 64 characters."><input name="tier" value={name} required pattern="[A-Za-z0-9_.:\-]{1,64}" autocomplete="off" spellcheck={false} onInput={(e) => setName(e.currentTarget.value)} /></Field>
      <div class="actions"><button type="submit">Write it…</button></div>
    </form>
  )
}

function DeleteTier({ name }: { name: string }) {
  const [reason, setReason] = useState('')
  const tier = useLoad((signal) => callText('get', '/rules/tier/{tier}', { path: { tier: name }, accept: 'application/yaml', signal }), [name])
  return (
    <Page title={`Delete tier ${name}`} lead="Callers of the tier then have the limits of the other callers. Nothing is deleted until you confirm.">
      <Await of={tier} what="The tier was not loaded">
        {({ etag }) => (
          <Change canary verb={`Delete tier ${name}`} reason={reason} setReason={setReason}
            send={({ signal, reason: why, ...query }) => call('delete', '/rules/tier/{tier}', { path: { tier: name }, query, ifMatch: etag, reason: why ?? '', signal })}
            done={(o) => go([o.canary ? 'canary' : 'tiers'])} cancel={() => go(['tiers'])} />
        )}
      </Await>
    </Page>
  )
}
